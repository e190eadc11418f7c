"""A screen that is one page to read: lines in a scroll, and the keys that move in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget

from console import keys
from console.screens.base import ConsoleScreen
from console.view import View
from remote.errors import OperatorError
from remote.text import clean
from widgets.card import Block
from widgets.tones import ACT


class PageScreen(ConsoleScreen):
    """Shows `lines(view)` in a scroll; the place one reads at stays at refreshes."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings(*keys.MOVES)]
    AUTO_FOCUS: ClassVar[str | None] = "#scroll"

    def body(self) -> Iterable[Widget]:
        with VerticalScroll(id="scroll"):
            yield Block(id="page")

    def lines(self, view: View) -> Sequence[Text]:
        """The page."""
        return ()

    @property
    def page_width(self) -> int:
        """Cells that a line of the page may take."""
        return max(20, self.app.size.width - 4)

    def show(self, view: View) -> None:
        self.query_one("#page", Block).show(self.lines(view))

    @property
    def _scroll(self) -> VerticalScroll:
        return self.query_one("#scroll", VerticalScroll)

    def action_down(self) -> None:
        """A line down."""
        self._scroll.scroll_relative(y=1, animate=False)

    def action_up(self) -> None:
        """A line up."""
        self._scroll.scroll_relative(y=-1, animate=False)

    def action_page_down(self) -> None:
        """A page down."""
        self._scroll.scroll_page_down(animate=False)

    def action_page_up(self) -> None:
        """A page up."""
        self._scroll.scroll_page_up(animate=False)

    def action_top(self) -> None:
        """To the top."""
        self._scroll.scroll_home(animate=False)

    def action_bottom(self) -> None:
        """To the end."""
        self._scroll.scroll_end(animate=False)


def error_lines(error: OperatorError) -> list[Text]:
    """An error as the body of a screen: what is wrong, then what to do."""
    lines = [Text(f"✗ {clean(error.message, 500)}", ACT)]
    if error.remedy:
        lines.append(Text(f"  {clean(error.remedy, 500)}"))
    return lines
