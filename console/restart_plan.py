"""What a restart is decided on: the target, its plan and its preflight, frozen at the key press."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console.clock import wall_s
from console.model import Generator, Writer
from console.plan_diff import plan_differences
from console.short_command import short_command
from console.text import age
from console.view import ControllerLike, View
from remote.errors import OperatorError
from remote.options import Options

PLAN_DEADLINE_S = 60.0
PREFLIGHT_DEADLINE_S = 180.0

STOPPABLE_VERDICTS = frozenset({"starting", "running", "running-unsupervised", "held-by-stray"})
"""Verdicts under which there is a generator of ours to stop."""


@dataclass(frozen=True)
class RestartPlan:
    """What was true at the key press: everything `execute` goes by, and what `trace` prints."""

    target: str
    options: Options
    plan: Mapping[str, Any]
    preflight: tuple[Mapping[str, Any], ...]
    generator: Generator
    stops_generator: bool
    strays: tuple[Writer, ...]


async def look(controller: ControllerLike, options: Options, kill_pids: Collection[int] | None = None) -> RestartPlan:
    """Freeze the target and ask for plan and preflight; nothing is changed.

    `kill_pids` are the foreign processes that were named, None for all that there are.
    Raises OperatorError, `unnamed-process` when one of them was not named.
    """
    view = controller.view
    if view.snapshot is None:
        raise OperatorError("no-snapshot", "the container has not been seen yet", "wait for the link, then try again")
    snapshot = view.snapshot
    strays = _named(view, snapshot.writers, kill_pids)
    stops = snapshot.generator.verdict in STOPPABLE_VERDICTS
    asked = {
        "options": options.to_json(),
        "stopping": [writer.pid for writer in strays],
        "stops_generator": stops,
    }
    plan = await controller.call("plan", asked, PLAN_DEADLINE_S)
    # Our clock as late as it can be read: the container compares it with its own.
    preflight = await controller.call("preflight", {**asked, "at": wall_s()}, PREFLIGHT_DEADLINE_S)
    return RestartPlan(
        target=view.link.target,
        options=options,
        plan={**plan, "preflight": preflight},
        preflight=tuple(preflight),
        generator=snapshot.generator,
        stops_generator=stops,
        strays=strays,
    )


def _named(view: View, writers: Sequence[Writer], kill_pids: Collection[int] | None) -> tuple[Writer, ...]:
    if kill_pids is None:
        return tuple(writers)
    present = {writer.pid for writer in writers}
    unnamed = [writer for writer in writers if writer.pid not in kill_pids]
    if unnamed:
        who = "; ".join(
            f"pid {writer.pid} ({short_command(writer.argv)}, up {age(view.age_s(writer.since))})" for writer in unnamed
        )
        flags = " ".join(f"--kill-pid {writer.pid}" for writer in unnamed)
        raise OperatorError(
            "unnamed-process",
            f"a restart would have to kill what this console did not launch: {who}",
            f"name each one to be killed: {flags}",
        )
    gone = [pid for pid in kill_pids if pid not in present]
    if gone:
        raise OperatorError(
            "not-there",
            f"pid {', '.join(map(str, gone))} is no process that writes these datasets",
            "look at the state again with: eagle3-console status",
        )
    return tuple(writer for writer in writers if writer.pid in kill_pids)


def check_against(plan: Mapping[str, Any], kept: Mapping[str, Any]) -> None:
    """Refuse when the state drifted from a kept plan; counts alone may differ. Raises OperatorError `drifted`."""
    differences = plan_differences(kept, plan)
    if differences:
        raise OperatorError(
            "drifted",
            "the state is not the one of the kept plan: " + "; ".join(differences),
            "make a new one with: eagle3-console trace --out FILE",
        )
