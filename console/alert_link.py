"""Alerts about the link, and about what cannot be seen through it."""

from __future__ import annotations

from collections.abc import Iterator

from console import text
from console.finding import Case, Finding
from console.thresholds import Thresholds
from console.view import Level, LinkState, View

READING = "datasets: reading every record for the first time"
"""How the agent tells that it is at its first look at large files (`remote.rounds`)."""


def link_down(view: View, limits: Thresholds) -> Iterator[Finding]:
    """Nothing fresh can be shown, and for how long."""
    link = view.link
    age_s = link.age_s
    if link.state in (LinkState.UNKNOWN_KEY, LinkState.CHANGED_KEY, LinkState.FAILED):
        yield Finding(
            "link-failed", "link-failed", Level.CRITICAL, f"no link: {link.error}", link.remedy, "R", of_link=True
        )
    elif link.state in (LinkState.STALE, LinkState.RECONNECTING) and age_s is not None and age_s >= limits.stale_s:
        because = f": {link.error}" if link.error else ""
        yield Finding(
            "stale-link",
            "stale-link",
            Level.CRITICAL if age_s >= 5 * limits.stale_s else Level.WARNING,
            f"nothing has been heard of the container for {text.age(age_s)}{because}",
            "what runs there runs on; try again now",
            "R",
            of_link=True,
        )


def clock_skew(view: View, limits: Thresholds) -> Iterator[Finding]:
    """The container's clock and ours are apart."""
    skew_s = view.link.skew_s
    if skew_s is not None and abs(skew_s) >= limits.skew_s:
        yield Finding(
            "clock-skew",
            "clock-skew",
            Level.WARNING,
            f"the container's clock is {text.duration(abs(skew_s))} {'ahead of' if skew_s > 0 else 'behind'} ours",
            "ages are measured by its clock; set the clocks",
            of_link=True,
        )


def agent_problems(case: Case) -> Iterator[Finding]:
    """What the agent could not read, and what it sent that is not understood."""
    snapshot = case.snapshot
    reading = [problem for problem in snapshot.problems if problem.startswith(READING)]
    problems = [problem for problem in snapshot.problems if problem not in reading]
    if reading:
        yield Finding(
            "first-look",
            "first-look",
            Level.NOTE,
            f"the datasets are not known yet: {reading[0].removeprefix('datasets: ')}",
            "wait: later looks read only what is new",
        )
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        yield Finding(
            "partly-blind",
            "partly-blind",
            Level.WARNING,
            f"the container cannot be read in full: {problems[0]}{more}",
            "what is not known is shown as –",
            lasts_s=15,
        )
    if snapshot.misread:
        yield Finding(
            "misread",
            "misread",
            Level.WARNING,
            f"the agent sent what this console does not understand: {snapshot.misread[0]}",
            "connect anew to ship this release",
            "R",
        )
