"""The keys at the bottom of a screen: shown, dimmed when they can do nothing now, and clickable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget

from widgets.tones import DIM


@dataclass(frozen=True)
class KeyHint:
    """One key: how it is printed, its word, what it stands for, and whether it works now."""

    shown: str
    word: str
    action: str
    works: bool = True


class KeyBar(Widget):
    """A row of `KeyHint`s, on as many lines as they need (two at most); a click sends `Pressed`.

    When two lines are too few, words go first (`r K d`), then the last keys.
    """

    DEFAULT_CSS = """
    KeyBar { height: auto; max-height: 2; background: $panel; padding: 0 1; }
    """

    class Pressed(Message):
        """A hint was clicked; `action` is what it stands for."""

        def __init__(self, action: str) -> None:
            self.action = action
            super().__init__()

    def __init__(self, hints: Sequence[KeyHint] = (), *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._hints = tuple(hints)
        self._places: list[tuple[int, int, int, str]] = []

    def show(self, hints: Sequence[KeyHint]) -> None:
        """Show these hints. The same ones again cost nothing."""
        if self._hints != tuple(hints):
            self._hints = tuple(hints)
            self.refresh(layout=True)

    def line_count(self, width: int) -> int:
        """Lines that the hints take at this width, 1 or 2."""
        return max(1, len(self._laid_out(width)))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self.line_count(width)

    def on_resize(self, event: Resize) -> None:
        self.refresh(layout=True)

    def render(self) -> Text:
        lines = self._laid_out(self.content_size.width)
        self._places = []
        out = Text(no_wrap=True)
        for y, line in enumerate(lines):
            if y:
                out.append("\n")
            x = 0
            for hint, words in line:
                gap = 2 if words else 1
                if x:
                    out.append(" " * gap)
                    x += gap
                text = _hint_text(hint, words)
                self._places.append((y, x, x + text.cell_len, hint.action))
                out.append_text(text)
                x += text.cell_len
        return out

    def on_click(self, event: Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        for y, start, end, action in self._places:
            if offset.y == y and start <= offset.x < end:
                event.stop()
                self.post_message(self.Pressed(action))
                return

    def _laid_out(self, width: int) -> list[list[tuple[KeyHint, bool]]]:
        if width < 1:
            return []
        for words in (True, False):
            lines = _flow(self._hints, width, words)
            if len(lines) <= 2:
                return lines
        return lines[:2]


def _hint_text(hint: KeyHint, words: bool) -> Text:
    text = Text()
    text.append(hint.shown, "bold" if hint.works else DIM)
    if words:
        text.append(f" {hint.word}", "" if hint.works else DIM)
    return text


def _flow(hints: Sequence[KeyHint], width: int, words: bool) -> list[list[tuple[KeyHint, bool]]]:
    lines: list[list[tuple[KeyHint, bool]]] = [[]]
    x = 0
    for hint in hints:
        size = cell_len(hint.shown) + (1 + cell_len(hint.word) if words else 0)
        gap = (2 if words else 1) if x else 0
        if x and x + gap + size > width:
            lines.append([])
            x, gap = 0, 0
        lines[-1].append((hint, words))
        x += gap + size
    return lines
