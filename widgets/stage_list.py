"""The stages of an action, one line each: what is to come, what is being done, what is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from rich.text import Text

from widgets.tones import ACT, DIM, GOOD, LOOK
from widgets.wrapping import wrapped


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


def stage_lines(stages: Sequence[Stage], width: int = 78) -> list[Text]:
    """The stages, numbered, in lines of at most `width` cells; the state is told by mark and word, the colour adds."""
    wide = max((len(stage.word) for stage in stages), default=0)
    indent = wide + 6
    out = []
    for number, stage in enumerate(stages, 1):
        mark, tone = _MARKS[stage.state]
        told = stage.state not in (StageState.WAITING, StageState.DONE)
        detail = f"{stage.detail}  ({stage.state.value})" if told else stage.detail
        first, *rest = wrapped(detail, width - indent)
        out.append(
            Text.assemble(
                (f"{mark} {number} ", tone), (stage.word.ljust(wide + 2), "bold"), (first, tone if told else "")
            )
        )
        out.extend(Text.assemble(" " * indent, (part, tone if told else "")) for part in rest)
        out.extend(Text(" " * indent + more, DIM) for more in stage.more)
    return out
