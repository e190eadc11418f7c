"""A dialog that picks one of a few lines; picking is all it does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from console.screens.dialog import Dialog


@dataclass(frozen=True)
class Pick:
    """A line to pick, and what it means."""

    words: Text
    meaning: str = ""


class PickDialog(Dialog[int]):
    """Returns the index of the picked line, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "move(1)", show=False),
        Binding("k", "move(-1)", show=False),
    ]

    def __init__(self, title: str, picks: Sequence[Pick]) -> None:
        super().__init__(title)
        self.picks = tuple(picks)

    def body(self) -> Iterable[Widget]:
        options = [Option(pick.words.copy().append(f"  {pick.meaning}" if pick.meaning else "")) for pick in self.picks]
        yield OptionList(*options, id="picks", markup=False)

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one(OptionList).disabled = True

    def on_armed(self) -> None:
        picks = self.query_one(OptionList)
        picks.disabled = False
        picks.highlighted = 0
        picks.focus()

    def action_move(self, step: int) -> None:
        """Up or down."""
        picks = self.query_one(OptionList)
        picks.action_cursor_down() if step > 0 else picks.action_cursor_up()

    @on(OptionList.OptionSelected)
    def _picked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(event.option_index)
