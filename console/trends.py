"""What alerts must remember of earlier snapshots: counters over ten minutes, and what was there at first. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from console.empty import EMPTY
from console.model import Snapshot

WINDOW_S = 600.0
LEAST_GAP_S = 5.0


@dataclass(frozen=True)
class Counters:
    """The generator's counters at one moment of our steady clock."""

    steady_s: float
    run_id: str | None
    answers: int
    failures: int


@dataclass(frozen=True)
class Trends:
    """Empty before the first snapshot. Times are our steady clock's, unless they say otherwise."""

    counters: tuple[Counters, ...] = ()
    unusable: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    """Unusable records per folder at the first look."""
    weight_version: str | None = None
    weights_changed: tuple[str, str] | None = None
    weights_changed_at: float | None = None
    gpu_busy_s: float | None = None
    """When the GPUs were last seen at work."""


def watch(trends: Trends, snapshot: Snapshot, steady_s: float, idle_share: float) -> Trends:
    """The trends with one more snapshot in them. `idle_share` is the GPU use below which they idle."""
    unusable = dict(trends.unusable)
    for row in snapshot.datasets:
        if row.schema.unusable is not None:
            unusable.setdefault(row.folder, row.schema.unusable)
    weights, changed, changed_at = snapshot.engine.weight_version, trends.weights_changed, trends.weights_changed_at
    if trends.weight_version is not None and weights is not None and weights != trends.weight_version:
        changed, changed_at = (trends.weight_version, weights), snapshot.at
    return Trends(
        counters=_count(trends.counters, snapshot, steady_s),
        unusable=unusable,
        weight_version=weights if weights is not None else trends.weight_version,
        weights_changed=changed,
        weights_changed_at=changed_at,
        gpu_busy_s=steady_s if _busy(snapshot, idle_share) else trends.gpu_busy_s,
    )


def failed_share(trends: Trends) -> tuple[int, int] | None:
    """Failed and all requests of the last ten minutes; None while nothing can be compared."""
    if len(trends.counters) < 2:
        return None
    first, last = trends.counters[0], trends.counters[-1]
    failures, answers = last.failures - first.failures, last.answers - first.answers
    return (failures, failures + answers) if failures >= 0 and answers >= 0 else None


def _busy(snapshot: Snapshot, idle_share: float) -> bool:
    used = [gpu.utilisation for gpu in snapshot.gpus.rows if gpu.utilisation is not None]
    # Without figures, or without work, idling means nothing.
    return not used or not snapshot.generator.running or sum(used) / len(used) > 100 * idle_share


def _count(marks: tuple[Counters, ...], snapshot: Snapshot, steady_s: float) -> tuple[Counters, ...]:
    generator = snapshot.generator
    if generator.answers is None or not generator.running:
        return ()
    # Every failed request is in `errors` by its kind; an older generator counts retries alone.
    failures = sum(generator.errors.values()) or generator.retries or 0
    mark = Counters(steady_s, generator.run_id, generator.answers, failures)
    if marks and marks[-1].run_id != mark.run_id:
        marks = ()
    if len(marks) > 1 and steady_s - marks[-2].steady_s < LEAST_GAP_S:
        marks = marks[:-1]
    marks = (*marks, mark)
    start = steady_s - WINDOW_S
    first = max((index for index, item in enumerate(marks) if item.steady_s <= start), default=0)
    return marks[first:]
