"""What an operator can do: key, palette and subcommand all call these, and nothing else acts.

An action that can hurt is proposed first (plan), shown (confirm), carried out exactly as shown
(execute) and looked at afterwards (verify); see `console.restart` and `console.kill`. The small
ones here are one call, recorded by the container with who did it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from console import kill, restart
from console.model import Dataset, Writer
from console.ports import Ask, Outcome, Progress, Proposal, Remark
from console.stages import StageBoard
from console.text import count
from console.view import Alert, ControllerLike, Level
from console.who import operator_text
from remote.errors import OperatorError
from remote.options import Budget, Options
from remote.text import clean
from remote.tokenization import reason_words
from widgets.stage_list import Stage, StageState

RETOKENIZE_DEADLINE_S = 6 * 3600.0
HOLD_DEFAULT_S = 8 * 3600.0
"""A hold that nobody lifts ends by itself after a shift."""


class Actions:
    """The operations of `console.ports.Operations`, over a controller's calls.

    `api_key` is the engine's, for a restart: it goes over the link into the generator's environment only.
    """

    def __init__(self, api_key: str | None = None) -> None:
        self._api_key = api_key

    async def restart(self, controller: ControllerLike, options: Options) -> Proposal:
        """Freeze the target, run preflight and trace, and propose a restart that kills all foreign writers it names."""
        proposal, _ = await restart.propose(controller, options, api_key=self._api_key)
        return proposal

    async def kill(self, controller: ControllerLike, writer: Writer | None) -> Proposal:
        """Propose to kill our generator (None) or a process that was not launched by us."""
        return kill.propose_generator(controller) if writer is None else kill.propose_writer(controller, writer)

    async def retokenize(self, controller: ControllerLike, options: Options, row: Dataset | None) -> Proposal:
        """Propose to rebuild tokenized_data.jsonl, of one dataset or wherever it is needed."""
        view = controller.view
        _refuse_read_only(options)
        if view.snapshot is None:
            raise OperatorError(
                "no-snapshot", "the container has not been seen yet", "wait for the link, then try again"
            )
        if view.snapshot.generator.running:
            raise OperatorError(
                "lock-held",
                f"the generator, pid {view.snapshot.generator.pid}, is writing; it tokenizes each dataset when it is done",
                "wait for it, or stop it with K",
            )
        wanted = options if row is None else _only(options, row)
        rows = view.snapshot.datasets if row is None else (row,)
        work = [r for r in rows if r.tokenization.decision == "rebuild" or (row is not None and r.responses)]
        stages = tuple(
            Stage(
                r.folder,
                r.id,
                f"{count(r.answered)} answers: {clean(reason_words(r.tokenization.reason or 'asked for'), 80)}",
            )
            for r in work
        )

        async def execute(choice: str, progress: Progress) -> Outcome:
            return await _retokenize(controller, wanted, StageBoard(stages, progress))

        return Proposal(
            title=f"tokenize on {view.link.target}",
            target=(f"root {clean(options.root, 200)}",),
            stages=stages,
            remarks=(Remark(Level.NOTE, "written beside and compared; a replaced file is kept in .eagle3/previous"),),
            ask=Ask.YES if work else Ask.NOTHING,
            yes="rebuild",
            execute=execute,
        )

    async def apply_budget(self, controller: ControllerLike, budget: Budget) -> Outcome:
        """Give the running generator another budget, live."""
        return await self._control(controller, {"token_budget": str(budget)}, f"budget {budget} applied")

    async def pause(self, controller: ControllerLike, on: bool) -> Outcome:
        """Stop admitting prompts, or go on."""
        word = "paused: nothing is admitted, what is in flight finishes" if on else "resumed"
        return await self._control(controller, {"paused": on}, word)

    async def ack(self, controller: ControllerLike, alert: Alert) -> Outcome:
        """Mark an alert as seen, for everybody."""
        _refuse_read_only(controller.view.options)
        await controller.call("ack", {"key": alert.key, "by": operator_text()})
        return Outcome(True, f"seen: {clean(alert.sentence, 120)}")

    async def note(self, controller: ControllerLike, text: str) -> Outcome:
        """Leave a note in the audit."""
        _refuse_read_only(controller.view.options)
        if not text.strip():
            raise OperatorError("empty-note", "an empty note says nothing", "write a sentence for the next shift")
        await controller.call("note", {"text": clean(text, 1000), "by": operator_text()})
        return Outcome(True, "the note is kept on the container")

    async def hold(self, controller: ControllerLike, reason: str) -> Outcome:
        """Set the hold with its reason, or lift it with an empty one."""
        _refuse_read_only(controller.view.options)
        params: dict[str, Any] = {"by": operator_text(), "reason": clean(reason.strip(), 200)}
        if reason.strip():
            params["until"] = controller.view.container_now + HOLD_DEFAULT_S
        await controller.call("hold", params)
        until = time.strftime("%H:%M", time.gmtime(params["until"])) if "until" in params else ""
        return Outcome(True, f"held until {until} UTC: {params['reason']}" if until else "the hold is lifted")

    async def _control(self, controller: ControllerLike, change: Mapping[str, Any], word: str) -> Outcome:
        _refuse_read_only(controller.view.options)
        snapshot = controller.view.snapshot
        if snapshot is None or not snapshot.generator.running:
            raise OperatorError("nothing-runs", "no generator of ours runs here", "r starts one with this budget")
        await controller.call("control", {**change, "by": operator_text()})
        return Outcome(True, f"{word} (pid {snapshot.generator.pid})")


def _refuse_read_only(options: Options) -> None:
    if options.read_only:
        raise OperatorError("read-only", "this target is read-only", "leave out --read-only to change something")


def _only(options: Options, row: Dataset) -> Options:
    return replace(options, datasets=(row.folder,), retokenize="always")


async def _retokenize(controller: ControllerLike, options: Options, board: StageBoard) -> Outcome:
    for stage in board.stages:
        board.set(stage.id, StageState.WORKING)
    params = {"options": options.to_json(), "by": operator_text()}
    try:
        results = await controller.call("retokenize", params, RETOKENIZE_DEADLINE_S)
    except OperatorError as error:
        for stage in board.stages:
            board.set(stage.id, StageState.FAILED)
        return Outcome(False, f"not tokenized: {error.message}", (Remark(Level.CRITICAL, str(error)),))
    remarks, ok = [], True
    for folder, result in results.items():
        good = bool(result.get("ok"))
        ok = ok and good
        detail = clean(result.get("detail") or "", 300)
        board.set(folder, StageState.DONE if good else StageState.FAILED, detail)
        remarks.append(Remark(Level.NOTE if good else Level.CRITICAL, f"{folder}: {detail}"))
    return Outcome(ok, "tokenized" if ok else "not everything was tokenized", tuple(remarks))
