"""What an alert rule looks at, and what it finds."""

from __future__ import annotations

from dataclasses import dataclass

from console.model import Dataset, Snapshot
from console.thresholds import Thresholds
from console.trends import Trends
from console.view import Level, View


@dataclass(frozen=True)
class Finding:
    """Something wrong right now. `lasts_s` is how long it must last before it becomes an alert.

    `key` says what it is about (`engine-unhealthy`, `length-share:B4_mixturethoughts`), so that an
    acknowledgement made on one console is understood by another. `since` is known where the
    container itself says when it began (container clock); `at_first_look` says whether a console
    opened now may raise it without waiting; `of_link` marks what is about the link itself.
    """

    key: str
    code: str
    level: Level
    sentence: str
    next_step: str = ""
    press: str = ""
    dataset: str | None = None
    since: float | None = None
    lasts_s: float = 0.0
    at_first_look: bool = True
    of_link: bool = False


@dataclass(frozen=True)
class Case:
    """What the rules about the container look at; `steady_s` is our own clock that never jumps."""

    view: View
    snapshot: Snapshot
    trends: Trends
    limits: Thresholds
    steady_s: float


def work_left(snapshot: Snapshot) -> list[Dataset]:
    """The datasets that a restart would generate for."""
    return [row for row in snapshot.datasets if row.inference.decision in ("resume", "start")]


def tokenizing_left(snapshot: Snapshot) -> list[Dataset]:
    """The datasets that a restart would only tokenize: what is to be answered there is answered."""
    return [
        row
        for row in snapshot.datasets
        if row.tokenization.decision == "rebuild" and row.inference.decision not in ("resume", "start")
    ]


def names(rows: list[Dataset]) -> str:
    """`B3, B4`, or `B3 to B8 (6 datasets)`."""
    ids = [row.id for row in rows]
    return ", ".join(ids) if len(ids) <= 3 else f"{ids[0]} to {ids[-1]} ({len(ids)} datasets)"
