"""How a restart that failed is told: what was done, what was not, what is not known, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from console.model import Generator
from console.ports import Outcome, Remark
from console.view import ControllerLike, Level, View
from console.watching import wait_for
from remote.errors import OperatorError
from remote.text import clean

UNSURE = frozenset({"link-lost", "timeout"})
"""Errors after which the container may have done what it was asked for."""
BACK_LIMIT_S = 30.0
"""So long the link is waited for, to look at what became of a step whose answer never came."""


def failure(stage: str, error: OperatorError, done: Sequence[str], launched: Mapping[str, Any] | None) -> Outcome:
    """The outcome of a restart whose `stage` failed. `done` are the steps that are known to be done."""
    unsure = error.code in UNSURE
    remarks = [Remark(Level.CRITICAL, str(error))]
    if done:
        remarks.append(Remark(Level.WARNING, "done: " + "; ".join(done)))
    if launched is not None:
        return Outcome(False, f"started, but not verified: {error.message}", tuple(remarks), press="l")
    if error.code == "respawned":
        return Outcome(False, "not restarted: what was killed runs again", tuple(remarks), press="r")
    if unsure:
        headline = (
            f"not known whether {'it was started' if stage == 'launch' else 'it was stopped'}: the answer is lost"
        )
        return Outcome(False, headline, tuple(remarks), press="r")
    if done:
        return Outcome(False, "KILLED BUT NOT STARTED: nothing generates now", tuple(remarks), press="r")
    remarks.append(Remark(Level.NOTE, "nothing was killed and nothing was started"))
    return Outcome(False, f"not restarted: {stage} failed", tuple(remarks))


async def looked_again(
    controller: ControllerLike, outcome: Outcome, stage: str, error: OperatorError, before: Generator
) -> Outcome:
    """The outcome, and what is seen to run once the link is back, where an answer was lost on the way.

    `before` is the generator as it was frozen: another run than its own is the new one. Takes `BACK_LIMIT_S` at most.
    """
    if error.code not in UNSURE:
        return outcome
    seen = controller.view.snapshot
    last_at = seen.at if seen is not None else None

    def back(view: View) -> bool:
        return view.link.fresh and view.snapshot is not None and view.snapshot.at != last_at

    def settled(view: View) -> bool:
        if not back(view) or view.snapshot is None:
            return False
        generator = view.snapshot.generator
        return generator.run_id != before.run_id if stage == "launch" else not generator.running

    view = await wait_for(controller, settled, BACK_LIMIT_S) or controller.view
    if not back(view) or view.snapshot is None:
        return replace(outcome, remarks=(*outcome.remarks, Remark(Level.WARNING, "the link is not back yet")))
    generator = view.snapshot.generator
    who = f"run {clean(generator.run_id, 60)}, pid {generator.pid}"
    if generator.run_id != before.run_id and generator.running:
        remark = Remark(Level.NOTE, f"looked at again: {who}, is {clean(generator.verdict, 40)}")
        return replace(
            outcome, headline=f"started, but not verified: {who}", remarks=(*outcome.remarks, remark), press="l"
        )
    if generator.running:
        remark = Remark(
            Level.WARNING, f"looked at again: {who}, still runs{', draining' if generator.draining else ''}"
        )
        return replace(outcome, remarks=(*outcome.remarks, remark))
    others = ", ".join(f"pid {writer.pid}" for writer in view.snapshot.writers)
    remark = Remark(
        Level.CRITICAL, f"looked at again: no generator of ours runs{f'; {others} writes' if others else ''}"
    )
    return replace(outcome, remarks=(*outcome.remarks, remark))
