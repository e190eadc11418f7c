"""The stages of an action, one line each: what is to come, what is being done, what is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from rich.text import Text

from widgets.tones import ACT, DIM, GOOD, LOOK


class StageState(StrEnum):
    """How far a stage is."""

    WAITING = "waiting"
    WORKING = "working"
    DONE = "done"
    SKIPPED = "not needed"
    FAILED = "failed"
    NOT_DONE = "not done"


_MARKS = {
    StageState.WAITING: (" ", DIM),
    StageState.WORKING: ("▸", LOOK),
    StageState.DONE: ("✓", GOOD),
    StageState.SKIPPED: ("·", DIM),
    StageState.FAILED: ("✗", ACT),
    StageState.NOT_DONE: ("–", DIM),
}


@dataclass(frozen=True)
class Stage:
    """One stage: a word, what it does to what, and how far it is."""

    id: str
    word: str
    detail: str
    more: tuple[str, ...] = ()
    state: StageState = StageState.WAITING


def stage_lines(stages: Sequence[Stage]) -> list[Text]:
    """The stages, numbered. The state is told by mark and word, the colour only adds."""
    wide = max((len(stage.word) for stage in stages), default=0)
    out = []
    for number, stage in enumerate(stages, 1):
        mark, tone = _MARKS[stage.state]
        line = Text(no_wrap=False)
        line.append(f"{mark} {number} ", tone)
        line.append(stage.word.ljust(wide + 2), "bold")
        line.append(stage.detail)
        if stage.state not in (StageState.WAITING, StageState.DONE):
            line.append(f"  {stage.state.value}", tone)
        out.append(line)
        out.extend(Text(" " * (wide + 6) + more, DIM) for more in stage.more)
    return out
