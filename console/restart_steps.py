"""A restart that was confirmed, carried out: stop, ship, launch, verify, and the audit of what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from console.model import Writer
from console.ports import Outcome, Remark
from console.restart_outcome import failure, looked_again
from console.restart_plan import RestartPlan
from console.stages import StageBoard
from console.text import plural
from console.unrecorded import unrecorded
from console.view import ControllerLike, Level, View
from console.watching import wait_for
from console.who import operator_text
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.text import clean
from widgets.stage_list import StageState

LAUNCH_DEADLINE_S = 180.0
STRAY_DEADLINE_S = 90.0
ENGINE_FREE_DEADLINE_S = 20.0
VERIFY_DEADLINE_S = 30.0
STOP_MARGIN_S = 60.0
"""A stop may take its drain, and this much for the steps after it."""


async def carry_out(controller: ControllerLike, frozen: RestartPlan, board: StageBoard, api_key: str | None) -> Outcome:
    """Stop, ship, launch and verify what was frozen; `board` shows each stage as it goes.

    Raises nothing that an operator can meet: what failed is the outcome, and is audited as a success is.
    """
    done: list[str] = []
    results: list[Mapping[str, Any]] = []
    launched: Mapping[str, Any] | None = None
    stage = "stop"
    try:
        await _stop(controller, frozen, board, done, results)
        stage = "ship"
        board.set("ship", StageState.DONE, f"{str(frozen.plan.get('release') or '')[:7]} is on the container")
        stage = "launch"
        board.set("launch", StageState.WORKING)
        launched = await _launch(controller, frozen, api_key)
        results.append(launched)
        done.append(f"launched run {launched.get('run_id')}, pid {launched.get('pid')}")
        board.set("launch", StageState.DONE, f"pid {launched.get('pid')}, run {launched.get('run_id')}: it says ready")
        stage = "verify"
        remarks = await _verify(controller, board, launched)
    except OperatorError as error:
        board.give_up(stage, str(error))
        outcome = failure(stage, error, done, launched)
        outcome = await looked_again(controller, outcome, stage, error, frozen.generator)
        outcome = replace(outcome, remarks=(*outcome.remarks, *unrecorded(*results)))
        await _audit(controller, frozen, outcome)
        return outcome
    outcome = Outcome(
        True,
        f"running: pid {launched.get('pid')}, run {launched.get('run_id')}, budget {frozen.options.token_budget}",
        (*remarks, *unrecorded(*results)),
    )
    await _audit(controller, frozen, outcome)
    return outcome


async def _stop(
    controller: ControllerLike,
    frozen: RestartPlan,
    board: StageBoard,
    done: list[str],
    results: list[Mapping[str, Any]],
) -> None:
    """Stop what was frozen; `done` gets a line, and `results` the agent's answer, for each."""
    if not frozen.stops_generator and not frozen.strays:
        board.set("stop", StageState.SKIPPED)
        return
    board.set("stop", StageState.WORKING)
    by = operator_text()
    if frozen.stops_generator:
        stopped = await controller.call(
            "stop",
            {
                "mode": "drain",
                "drain_s": frozen.options.drain_s,
                "identity": frozen.generator.identity,
                "run_id": frozen.generator.run_id,
                "by": by,
            },
            frozen.options.drain_s + STOP_MARGIN_S,
        )
        results.append(stopped)
        _refuse_left(stopped, f"pid {frozen.generator.pid}")
        done.append(f"stopped pid {frozen.generator.pid}")
    for writer in frozen.strays:
        killed = await controller.call("kill_stray", {"identity": writer.identity, "by": by}, STRAY_DEADLINE_S)
        results.append(killed)
        done += _killed(killed, writer)
    if frozen.strays:
        await _await_free_engine(controller, board, done)
    board.set("stop", StageState.DONE, "; ".join(done))


async def _await_free_engine(controller: ControllerLike, board: StageBoard, done: list[str]) -> None:
    """The requests of what was killed decode on after it; said, rather than let two loads share the engine unseen."""
    if controller.view.snapshot is None or _engine_free(controller.view):
        return
    board.set("stop", StageState.WORKING, f"{'; '.join(done)}; waiting for its requests to leave the engine")
    if await wait_for(controller, _engine_free, ENGINE_FREE_DEADLINE_S) is not None:
        return
    left = controller.view.snapshot.engine.running if controller.view.snapshot else None
    if left is None:
        done.append("its requests may still run on the engine")
    else:
        done.append(f"{plural(left, 'request')} still run{'s' if left == 1 else ''} on the engine")


def _engine_free(view: View) -> bool:
    return view.snapshot is not None and view.snapshot.engine.running == 0


def _refuse_left(stopped: Mapping[str, Any], what: str) -> None:
    left = stopped.get("left") or []
    if left:
        named = ", ".join(clean(item, 120) for item in left)
        raise OperatorError("not-gone", f"{what} is not gone: {named} is left", "kill it with --force, then restart")


def _killed(killed: Mapping[str, Any], writer: Writer) -> list[str]:
    _refuse_left(killed, f"pid {writer.pid}")
    respawned = killed.get("respawned")
    if not respawned:
        return [f"killed pid {writer.pid}"]
    parent = writer.parent.pid if writer.parent is not None else None
    raise OperatorError(
        "respawned",
        f"pid {writer.pid} was killed and something started it again as pid {clean(respawned, 80)}",
        f"end its parent first, on the container: kill {parent}" if parent else "end what starts it again first",
    )


async def _launch(controller: ControllerLike, frozen: RestartPlan, api_key: str | None) -> Mapping[str, Any]:
    params: dict[str, Any] = {"options": frozen.options.to_json(), "by": operator_text(), "plan": dict(frozen.plan)}
    if api_key:
        params["api_key"] = api_key
    launched: Mapping[str, Any] = await controller.call("launch", params, LAUNCH_DEADLINE_S)
    return launched


async def _verify(controller: ControllerLike, board: StageBoard, launched: Mapping[str, Any]) -> list[Remark]:
    board.set("verify", StageState.WORKING)
    run_id = launched.get("run_id")

    def ours(view: View) -> bool:
        generator = view.snapshot.generator if view.snapshot else None
        if generator is None or generator.run_id != run_id:
            return False
        finished = generator.verdict == "exited"
        return finished or (generator.running and generator.progress_at is not None)

    view = await wait_for(controller, ours, VERIFY_DEADLINE_S)
    if view is None or view.snapshot is None:
        raise OperatorError(
            "not-verified",
            f"run {run_id} said that it was ready, and {VERIFY_DEADLINE_S:g} s later it has made no progress",
            "look at its log with l, and at the engine with e",
        )
    snapshot = view.snapshot
    if snapshot.generator.verdict == "exited":
        code = snapshot.generator.exit.code if snapshot.generator.exit else None
        if code != ExitCode.DONE:
            raise OperatorError(
                "ended", f"run {run_id} ended at once with exit code {code}", "its log says why: press l"
            )
        board.set("verify", StageState.DONE, "it has already finished")
        return [Remark(Level.NOTE, "the run has already finished: there was little to do")]
    others = [writer.pid for writer in snapshot.writers]
    if others:
        raise OperatorError(
            "other-writer",
            f"run {run_id} runs, and pid {', '.join(map(str, others))} writes the same datasets",
            "kill it with K, or stop what starts it again",
        )
    said = snapshot.generator.engine_state
    engine = snapshot.engine.health if said in (None, "unknown") else said
    board.set("verify", StageState.DONE, f"pid {snapshot.generator.pid} holds the lock, engine {clean(engine, 40)}")
    if engine not in ("ok", "healthy", "up"):
        return [Remark(Level.WARNING, f"the engine is {clean(engine, 80)}: the run waits for it")]
    return []


async def _audit(controller: ControllerLike, frozen: RestartPlan, outcome: Outcome) -> None:
    entry = {
        "action": "restart",
        "by": operator_text(),
        "target": frozen.target,
        "killed": [dict(writer.identity or {}, argv=list(writer.argv)) for writer in frozen.strays],
        "plan": dict(frozen.plan),
        "outcome": "done" if outcome.ok else "failed",
        "detail": " | ".join([outcome.headline, *(remark.text for remark in outcome.remarks)]),
    }
    try:
        await controller.call("audit", {"add": entry})
    except OperatorError:
        # The agent has already recorded the launch and each kill; this line only adds the summary,
        # and a link that is gone must not hide the outcome from the person who is waiting for it.
        return
