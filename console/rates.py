"""How fast tokens come in, and when each dataset will have enough: pure, the container's clock passed in.

Answers arrive in lumps, so a rate is the growth of a dataset's tokens over a window of two
minutes, measured by the container's own timestamps. Until a window has formed, the rate that
the generator itself measured (`progress.json`) is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from console.empty import EMPTY
from console.model import Dataset, Snapshot
from console.settling import settled
from console.view import Rate, Totals

WINDOW_S = 120.0
LEAST_S = 20.0
"""A shorter span says too little: one long answer more or less doubles the rate."""

LEAST_GAP_S = 0.5
"""Marks nearer than this replace one another, so that a history stays small however often it is fed."""

CLOCK_STEP_S = 5.0
"""The container's clock and ours may disagree by this much between two snapshots before we take it for a step."""


@dataclass(frozen=True)
class Mark:
    """Tokens of one dataset at one moment of the container's clock."""

    at: float
    tokens: int


@dataclass(frozen=True)
class RateHistory:
    """Marks per folder, oldest first, never longer than the window asks for; and when the last one was taken."""

    marks: Mapping[str, tuple[Mark, ...]] = field(default_factory=lambda: EMPTY)
    at: float | None = None
    steady_s: float | None = None


def advance(history: RateHistory, snapshot: Snapshot, steady_s: float) -> RateHistory:
    """The history with this snapshot in it. `steady_s` is our own clock that never jumps.

    A dataset whose tokens shrank (files replaced or cut) starts anew; when the container's
    clock was stepped, all do.
    """
    if history.at is not None and history.steady_s is not None:
        drift_s = (snapshot.at - history.at) - (steady_s - history.steady_s)
        if abs(drift_s) > CLOCK_STEP_S or snapshot.at < history.at:
            history = RateHistory()
    marks = {
        row.folder: _with_mark(history.marks.get(row.folder, ()), Mark(snapshot.at, row.tokens))
        for row in snapshot.datasets
        if row.tokens is not None
    }
    return RateHistory(marks, snapshot.at, steady_s)


def _with_mark(marks: tuple[Mark, ...], new: Mark) -> tuple[Mark, ...]:
    if marks and new.tokens < marks[-1].tokens:
        return (new,)
    if len(marks) > 1 and new.at - marks[-2].at < LEAST_GAP_S:
        marks = marks[:-1]
    marks = (*marks, new)
    # One mark at or before the window's start stays: the growth is counted from there.
    start = new.at - WINDOW_S
    first = max((index for index, mark in enumerate(marks) if mark.at <= start), default=0)
    return marks[first:]


def measured(history: RateHistory, folder: str) -> float | None:
    """Tokens a second over the window; None when less than 20 s have been seen."""
    marks = history.marks.get(folder, ())
    if not marks or marks[-1].at - marks[0].at < LEAST_S:
        return None
    return (marks[-1].tokens - marks[0].tokens) / (marks[-1].at - marks[0].at)


def rates(history: RateHistory, snapshot: Snapshot) -> dict[str, Rate]:
    """The rate of every dataset that is being answered, by folder."""
    found: dict[str, Rate] = {}
    for row in snapshot.active:
        counted = measured(history, row.folder)
        if counted is not None and counted > 0:
            found[row.folder] = Rate(counted, "counted")
        elif row.state == "tokenizing":
            continue  # its answers are all there: it has no speed, which is not a speed of 0
        elif row.rate_tokens_s is not None:
            found[row.folder] = Rate(row.rate_tokens_s, "progress")
        elif counted is not None:
            found[row.folder] = Rate(counted, "counted")
    return found


def work_left_tokens(row: Dataset, fleet_mean: float | None) -> float | None:
    """Tokens this dataset will still get: up to its budget, and no more than its prompts can give.

    `fleet_mean` is the mean answer length of all datasets, used while this one has too few
    answers of its own. None when it cannot be told.
    """
    if row.inference.decision in ("skip", "blocked"):
        return 0.0
    own = row.mean_tokens if (row.answered or 0) >= 20 else None
    mean = own or fleet_mean
    reachable = row.prompts_left * mean if row.prompts_left is not None and mean is not None else None
    remaining = row.remaining_tokens
    if remaining is None:
        return reachable
    return float(remaining) if reachable is None else min(float(remaining), reachable)


def fleet_mean_tokens(snapshot: Snapshot) -> float | None:
    """Mean answer length over all datasets with answers; None while there are none."""
    known = [(row.tokens, row.answered) for row in snapshot.datasets if row.tokens is not None and row.answered]
    answers = sum(answered for _, answered in known)
    return sum(tokens for tokens, _ in known) / answers if answers else None


def etas(snapshot: Snapshot, rates: Mapping[str, Rate]) -> dict[str, float]:
    """Seconds until each dataset has what it will get, by folder, those that wait included.

    The engine's places go to the earliest dataset that still admits, so a dataset is done when
    all before it and it itself are, at the speed of all together. Nothing is told while our
    generator does not run, is paused or drains, or has no rate yet, or one that has not settled.
    """
    generator = snapshot.generator
    if not generator.running or generator.paused or generator.draining or not settled(generator, snapshot.at):
        return {}
    speed = sum(rate.tokens_s for rate in rates.values()) or generator.rate_tokens_s or 0.0
    if speed <= 0:
        return {}
    mean = fleet_mean_tokens(snapshot)
    found: dict[str, float] = {}
    before = 0.0
    for row in snapshot.datasets:
        left = work_left_tokens(row, mean)
        if left is None:
            if row.prompts_left:
                break  # nothing after it can be told either
            continue
        if left <= 0:
            continue
        before += left
        found[row.folder] = before / speed
    return found


def totals(snapshot: Snapshot, rates: Mapping[str, Rate], eta_s: Mapping[str, float]) -> Totals:
    """The sums of the table; a sum with an unknown part is unknown."""
    rows = [row for row in snapshot.datasets if row.kind != "pretokenized" and row.state != "missing"]
    needless = [writer.needless_tokens for writer in snapshot.writers]
    return Totals(
        tokens=_sum([row.tokens for row in rows]),
        budget=_sum([row.budget for row in rows]),
        budgeted_tokens=_sum([_within(row.tokens, row.budget) for row in rows]),
        responses=_sum([row.responses for row in rows]),
        prompts=_sum([row.prompts for row in rows]),
        rate_tokens_s=sum(rate.tokens_s for rate in rates.values()) if rates else None,
        eta_s=max(eta_s.values(), default=None),
        needless_tokens=_sum(needless) if needless else None,
    )


def _within(tokens: int | None, budget: int | None) -> int | None:
    return None if tokens is None or budget is None else min(tokens, budget)


def _sum(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
