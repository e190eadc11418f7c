"""A log of any length: only the lines on the screen are ever drawn."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from enum import IntEnum

from rich.cells import cell_len
from rich.text import Text
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from widgets.tones import ACT, DIM, LOOK

MAX_LINES = 200_000
"""Lines kept; when there are more, the oldest quarter goes and the place on the screen stays."""

_ERROR = re.compile(r"\b(?:ERROR|CRITICAL|FATAL|Traceback|error:)")
_WARNING = re.compile(r"\b(?:WARN(?:ING)?|warning:|retry|retrying)\b")
_TIME = re.compile(r"^(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?Z?")


class Level(IntEnum):
    """Which lines are shown."""

    ALL = 0
    WARNINGS = 1
    ERRORS = 2


def level_of(line: str) -> Level:
    """What a line's own words say it is; most lines are just lines."""
    if _ERROR.search(line):
        return Level.ERRORS
    return Level.WARNINGS if _WARNING.search(line) else Level.ALL


class LogView(ScrollView, can_focus=True):
    """Shows cleaned lines, follows the end, and stays put while one reads.

    Scrolling up stops following; `new_lines` then counts what has come since. `Moved` is sent
    whenever one of `following`, `new_lines`, the level or the number of matches has changed;
    `ReachedTop` when earlier lines may be wanted.
    """

    DEFAULT_CSS = """
    LogView { scrollbar-size-vertical: 1; scrollbar-size-horizontal: 1; overflow-x: auto; overflow-y: auto; }
    LogView.-stale { text-opacity: 55%; }
    """

    class Moved(Message):
        """The badge above the log needs another look."""

    class ReachedTop(Message):
        """The first line is on the screen."""

    def __init__(self, *, id: str | None = None, classes: str | None = None, max_lines: int = MAX_LINES) -> None:
        super().__init__(id=id, classes=classes)
        self._max = max_lines
        self._lines: list[str] = []
        self._shown: list[int] = []
        self._width = 1
        self._matches: list[int] = []
        self._pattern: re.Pattern[str] | None = None
        self._level = Level.ALL
        self._current: int | None = None
        self.following = True
        self.new_lines = 0

    @property
    def line_count(self) -> int:
        """How many lines there are, hidden ones included."""
        return len(self._lines)

    @property
    def match_count(self) -> int:
        """How many lines the search finds."""
        return len(self._matches)

    @property
    def match_number(self) -> int | None:
        """Which match one is at, from 1; None before the first jump."""
        if self._current is None or not self._matches:
            return None
        return bisect_left(self._matches, self._current) + 1

    @property
    def level(self) -> Level:
        """Which lines are shown."""
        return self._level

    def visible_text(self) -> list[str]:
        """The lines on the screen now, for copying."""
        first = self.scroll_offset.y
        return [self._lines[at] for at in self._shown[first : first + self.size.height]]

    def replace(self, lines: Iterable[str]) -> None:
        """Start over with these lines."""
        self._lines, self._shown, self._matches = [], [], []
        self._current, self.new_lines, self._width = None, 0, 1
        self.extend(lines)

    def extend(self, lines: Iterable[str]) -> None:
        """Lines that came since. They must be clean (no control characters) and without newlines."""
        start = len(self._lines)
        self._lines.extend(lines)
        came = self._take_in(start)
        if len(self._lines) > self._max:
            self._drop(len(self._lines) - self._max * 3 // 4)
        if not self.following:
            self.new_lines += came
        self._resized()

    def prepend(self, lines: Sequence[str]) -> None:
        """Earlier lines; what is on the screen stays there."""
        if not lines:
            return
        before = len(self._shown)
        self._lines[:0] = lines
        current = self._current
        self._rebuild()
        self._current = None if current is None else current + len(lines)
        self._resized()
        self.scroll_to(y=self.scroll_offset.y + len(self._shown) - before, animate=False, immediate=True)

    def show_level(self, level: Level) -> None:
        """Show all lines, or those of a level and above."""
        self._level = level
        self._rebuild()
        self._resized()

    def search(self, pattern: re.Pattern[str] | None) -> int:
        """Mark what a pattern finds; returns how many lines. None ends the search."""
        self._pattern, self._current = pattern, None
        self._rebuild()
        self.refresh()
        self.post_message(self.Moved())
        return len(self._matches)

    def jump(self, step: int) -> None:
        """Go to the next (1) or previous (-1) match; past the last comes the first."""
        if not self._matches:
            return
        if self._current is None:
            # From the end when one is there, else from the first line on the screen.
            here = len(self._lines) if self.following else self._top_line()
            at = bisect_left(self._matches, here) + (0 if step > 0 else -1)
        else:
            at = bisect_left(self._matches, self._current) + step
        self._current = self._matches[at % len(self._matches)]
        self.follow(False)
        row = bisect_left(self._shown, self._current)
        self.scroll_to(y=max(0, row - self.size.height // 2), animate=False, immediate=True)
        self.refresh()
        self.post_message(self.Moved())

    def follow(self, on: bool) -> None:
        """Follow the end, or stay here."""
        if on:
            self.new_lines = 0
        self.following = on
        if on:
            self.scroll_end(animate=False, immediate=True)
        self.post_message(self.Moved())

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        at_end = new_value >= self.max_scroll_y
        if new_value < old_value and self.following and not at_end:
            self.follow(False)
        elif at_end and not self.following and new_value > old_value:
            self.follow(True)
        if new_value <= 0 < old_value:
            self.post_message(self.ReachedTop())

    def on_resize(self) -> None:
        """Another height, or a scrollbar that came: the end is still what is followed."""
        if self.following:
            self.scroll_end(animate=False, immediate=True)

    def render_line(self, y: int) -> Strip:
        x, first = self.scroll_offset
        row, width, style = first + y, self.size.width, self.rich_style
        if row >= len(self._shown):
            return Strip.blank(width, style)
        at = self._shown[row]
        text = self._painted(at)
        text.stylize_before(style)
        return Strip(list(text.render(self.app.console)), text.cell_len).crop_extend(x, x + width, style)

    def _painted(self, at: int) -> Text:
        line = self._lines[at]
        tone = {Level.ALL: "", Level.WARNINGS: LOOK, Level.ERRORS: ACT}[level_of(line)]
        text = Text(line, no_wrap=True, end="")
        text.stylize(tone)
        if stamp := _TIME.match(line):
            text.stylize(DIM, 0, stamp.end())
        if self._pattern is not None:
            look = "reverse bold" if at == self._current else "reverse"
            for found in self._pattern.finditer(line):
                text.stylize(look, found.start(), found.end())
        return text

    def _top_line(self) -> int:
        first = min(self.scroll_offset.y, len(self._shown) - 1)
        return self._shown[first] if first >= 0 else 0

    def _take_in(self, start: int) -> int:
        before = len(self._shown)
        for at in range(start, len(self._lines)):
            line = self._lines[at]
            if self._level and level_of(line) < self._level:
                continue
            self._shown.append(at)
            self._width = max(self._width, len(line) if line.isascii() else cell_len(line))
            if self._pattern is not None and self._pattern.search(line):
                self._matches.append(at)
        return len(self._shown) - before

    def _rebuild(self) -> None:
        self._shown, self._matches = [], []
        self._take_in(0)

    def _drop(self, count: int) -> None:
        hidden = bisect_left(self._shown, count)
        del self._lines[:count]
        self._current = None if self._current is None or self._current < count else self._current - count
        self._rebuild()
        if not self.following:
            self.scroll_to(y=max(0, self.scroll_offset.y - hidden), animate=False, immediate=True)

    def _resized(self) -> None:
        self.virtual_size = Size(self._width, len(self._shown))
        if self.following:
            self.scroll_end(animate=False, immediate=True)
        self.refresh()
        self.post_message(self.Moved())
