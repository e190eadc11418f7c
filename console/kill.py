"""Kill: our generator by drain, now or force; a process that was not launched by us by INT, TERM, KILL.

The container carries it out, so that it completes when the link drops. Success means that nothing
of it is left; what is left is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from console.model import Generator, Writer
from console.ports import Ask, Choice, Outcome, Progress, Proposal, Remark
from console.restart_plan import STOPPABLE_VERDICTS
from console.restart_steps import STOP_MARGIN_S, STRAY_DEADLINE_S
from console.short_command import short_command
from console.stages import StageBoard
from console.text import age, count, tokens
from console.unrecorded import unrecorded
from console.view import ControllerLike, Level, View
from console.who import operator_text
from remote.errors import OperatorError
from remote.text import clean
from widgets.stage_list import Stage, StageState


def _lost_now(view: View, generator: Generator) -> float | None:
    """Tokens in flight that a stop at this moment throws away: half a mean answer for each, unless it is known.

    An answer in flight is, on average, half done when lengths are drawn alike and starts are spread evenly.
    """
    if generator.in_flight is None or view.snapshot is None:
        return None
    means = [row.mean_tokens for row in view.snapshot.datasets if row.folder in generator.in_work and row.mean_tokens]
    return generator.in_flight * (sum(means) / len(means)) / 2 if means else None


def _choices(view: View, generator: Generator) -> tuple[Choice, ...]:
    lost = _lost_now(view, generator)
    about = f"about {tokens(lost)} tokens in flight are lost" if lost is not None else "what is in flight is lost"
    drain_s = view.options.drain_s
    return (
        Choice("drain", "drain", f"finish what is in flight, for at most {drain_s:g} s, then cancel"),
        Choice("now", "now", f"cancel and abort: {about}"),
        Choice("force", "force", "SIGKILL: the same loss; the next run clears the engine"),
    )


def propose_generator(controller: ControllerLike, mode: str = "drain") -> Proposal:
    """Propose to stop our generator, frozen as it is now; its stages say `mode`. Raises OperatorError when there is none."""
    view = controller.view
    _writable(view)
    snapshot = view.snapshot
    if snapshot is None or snapshot.generator.verdict not in STOPPABLE_VERDICTS:
        verdict = snapshot.generator.verdict if snapshot else "unknown"
        raise OperatorError("nothing-runs", f"no generator of ours runs here ({verdict})", "r starts one")
    generator = snapshot.generator

    async def execute(choice: str, progress: Progress) -> Outcome:
        chosen = choice or mode
        board = StageBoard(_generator_stages(generator, chosen), progress)
        board.set("stop", StageState.WORKING)
        params = {
            "mode": chosen,
            "drain_s": view.options.drain_s,
            "identity": generator.identity,
            "run_id": generator.run_id,
            "by": operator_text(),
        }
        deadline_s = (view.options.drain_s if chosen == "drain" else 0) + STOP_MARGIN_S
        return await _carry_out(controller, board, "stop", params, deadline_s, f"pid {generator.pid}")

    return Proposal(
        title=f"kill on {view.link.target}",
        target=(
            f"generator pid {generator.pid}, run {generator.run_id}",
            f"up {age(view.age_s(generator.since))}, {count(generator.in_flight)} requests in flight",
            short_command(generator.argv),
        ),
        stages=_generator_stages(generator, mode),
        remarks=(Remark(Level.NOTE, "r continues where it stopped"),),
        ask=Ask.YES,
        yes=f"stop pid {generator.pid}",
        execute=execute,
        choices=_choices(view, generator),
    )


def _generator_stages(generator: Generator, mode: str) -> tuple[Stage, ...]:
    return (
        Stage("stop", "stop", f"pid {generator.pid} by {mode}; its supervisor carries it out"),
        Stage("verify", "verify", "nothing of its group is left"),
    )


def propose_writer(controller: ControllerLike, writer: Writer) -> Proposal:
    """Propose to kill a process that was not launched by us, frozen as it is now."""
    view = controller.view
    _writable(view)
    stages = (
        Stage("kill", "kill", f"pid {writer.pid} by INT, then TERM, then KILL, with waits"),
        Stage("verify", "verify", "it is gone, and nothing has started it again"),
    )
    remarks = [Remark(Level.WARNING, "it was not started by this console")]
    if writer.parent is not None and writer.parent.respawns:
        parent = writer.parent
        remarks.append(
            Remark(
                Level.WARNING,
                f"its parent, pid {parent.pid} ({short_command(parent.argv)}), may start it again: stop that first",
            )
        )

    async def execute(choice: str, progress: Progress) -> Outcome:
        board = StageBoard(stages, progress)
        board.set("kill", StageState.WORKING)
        params = {"identity": writer.identity, "by": operator_text()}
        return await _carry_out(controller, board, "kill_stray", params, STRAY_DEADLINE_S, f"pid {writer.pid}")

    return Proposal(
        title=f"kill on {view.link.target}",
        target=(
            f"pid {writer.pid}, up {age(view.age_s(writer.since))}",
            short_command(writer.argv),
            f"writes {', '.join(writer.datasets) or 'files under the root'}",
        ),
        stages=stages,
        remarks=tuple(remarks),
        ask=Ask.YES,
        yes=f"kill pid {writer.pid}",
        execute=execute,
    )


def _writable(view: View) -> None:
    if view.options.read_only:
        raise OperatorError("read-only", "this target is read-only", "leave out --read-only to change something")


async def _carry_out(
    controller: ControllerLike,
    board: StageBoard,
    method: str,
    params: Mapping[str, Any],
    deadline_s: float,
    what: str,
) -> Outcome:
    first = board.stages[0].id
    try:
        stopped = await controller.call(method, params, deadline_s)
    except OperatorError as error:
        board.give_up(first, str(error))
        return Outcome(False, f"{what} was not stopped: {error.message}", _after_failure(error))
    board.set(first, StageState.DONE)
    remarks = [*unrecorded(stopped)]
    left = [clean(item, 120) for item in stopped.get("left") or []]
    respawned = stopped.get("respawned")
    if left or respawned:
        detail = f"left: {', '.join(left)}" if left else f"started again as pid {clean(respawned, 80)}"
        board.give_up("verify", detail)
        remedy = "press K again and choose force" if left else "stop its parent, then press K again"
        remarks.append(Remark(Level.CRITICAL, remedy))
        return Outcome(False, f"{what} is not gone: {detail}", tuple(remarks), press="K")
    board.set("verify", StageState.DONE)
    if stopped.get("lost_tokens") is not None:
        remarks.append(Remark(Level.NOTE, f"{tokens(stopped['lost_tokens'])} tokens in flight were lost"))
    took = stopped.get("took_s")
    return Outcome(
        True, f"{what} is gone" + (f" after {took:.1f} s" if isinstance(took, int | float) else ""), tuple(remarks)
    )


def _after_failure(error: OperatorError) -> tuple[Remark, ...]:
    remarks = [Remark(Level.CRITICAL, str(error))]
    if error.code == "link-lost":
        remarks.append(
            Remark(Level.WARNING, "the container carries it out by itself: look again once the link is back")
        )
    return tuple(remarks)
