"""What this console has seen happen, as lines: shown where there is no log of a run of ours. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from console import text
from console.view import View

if TYPE_CHECKING:
    from console.model import Dataset, Snapshot

EVERY_S = 60.0
MAX_LINES = 500


@dataclass(frozen=True)
class Observed:
    """Lines so far, oldest first, and what they go by: the last snapshot and the last minute told."""

    lines: tuple[str, ...] = ()
    last: Snapshot | None = None
    told_at: float = float("-inf")


def observe(seen: Observed, view: View) -> Observed:
    """Add what a view tells: every change of a state at once, progress of what is worked on once a minute."""
    now = view.snapshot
    if now is None or (seen.last is not None and now.seq == seen.last.seq and now.at == seen.last.at):
        return seen
    stamp = text.clock(now.at)
    fresh = [f"{stamp}  {words}" for words in _changes(seen.last, now)]
    told_at = seen.told_at
    if now.at - told_at >= EVERY_S or now.at < told_at:
        told_at = now.at
        fresh += [f"{stamp}  {_progress(view, row)}" for row in now.datasets if row.in_work]
    lines = (*seen.lines, *fresh)[-MAX_LINES:] if fresh else seen.lines
    return replace(seen, lines=lines, last=now, told_at=told_at)


def _progress(view: View, row: Dataset) -> str:
    rate = view.rate_of(row)
    speed = f", {text.about(rate)} tok/s" if rate is not None else ""
    return f"{row.id}  {text.count(row.answered)} answers, {text.tokens(row.tokens)} tokens{speed}"


def _changes(before: Snapshot | None, now: Snapshot) -> Iterator[str]:
    if before is None:
        return
    for row in now.datasets:
        old = before.dataset(row.folder)
        if old is not None and old.state != row.state:
            yield f"{row.id}  {_word(old.state)} → {_word(row.state)}"
    if before.generator.verdict != now.generator.verdict:
        yield f"generator  {_word(before.generator.verdict)} → {_word(now.generator.verdict)}"
    pids, were = {writer.pid for writer in now.writers}, {writer.pid for writer in before.writers}
    for pid in sorted(pids - were):
        yield f"pid {pid}, not ours, began to write"
    for pid in sorted(were - pids):
        yield f"pid {pid}, not ours, is gone"
    # What was not known before the first look has not changed.
    if before.engine.health != now.engine.health and "engine health" not in before.pending:
        yield f"engine  {before.engine.health} → {now.engine.health}"


def _word(state: str | None) -> str:
    return (state or text.UNKNOWN).replace("-", " ")
