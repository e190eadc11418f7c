"""The log of the run: followed at its end, or read and searched while it grows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from rich.text import Text
from textual import on, work
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from console import keys
from console.desk import Desk
from console.keys import Key
from console.pattern import compile_pattern
from console.present_process import no_log_words
from console.screens.base import ConsoleScreen
from console.screens.copying import copy_text
from console.view import View
from remote.errors import OperatorError
from remote.text import clean
from widgets.card import Block
from widgets.log_view import Level, LogView
from widgets.tones import ACT, DIM, GOOD, LOOK

CHUNK_BYTES = 256 * 1024
LINE_LIMIT = 2000
_LEVEL_WORDS = {Level.ALL: "all lines", Level.WARNINGS: "warnings and errors", Level.ERRORS: "errors only"}


class LogScreen(ConsoleScreen):
    """Reads `run.log` in pieces: the end first, earlier ones when one scrolls to the top, later ones as they come."""

    KEYS: ClassVar[tuple[Key, ...]] = keys.LOG
    BINDINGS: ClassVar[list[BindingType]] = [
        *keys.bindings(*keys.LOG, *keys.MOVES),
        Binding("shift+left", "sideways(-20)", show=False),
        Binding("shift+right", "sideways(20)", show=False),
    ]
    AUTO_FOCUS: ClassVar[str | None] = "LogView"

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.start: int | None = None
        self.end: int | None = None
        self.error: OperatorError | None = None
        self.searched = ""
        self._loading = False

    def body(self) -> Iterable[Widget]:
        yield Block(id="badge")
        yield LogView(id="lines")
        yield Input(placeholder="regular expression; Enter searches, Esc ends", id="search", compact=True)

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one("#search", Input).display = False
        self.load_end()

    @property
    def log_view(self) -> LogView:
        """The widget with the lines."""
        return self.query_one("#lines", LogView)

    @work(name="log-end", group="log", exclusive=True, exit_on_error=False)
    async def load_end(self) -> None:
        """The end of the log."""
        answer = await self._ask({"bytes": CHUNK_BYTES})
        if answer is not None:
            self.start, self.end = answer["start"], answer["end"]
            self.log_view.replace(answer["lines"])
            self.log_view.follow(True)
        self._badge()

    @work(name="log-later", group="log-later", exclusive=True, exit_on_error=False)
    async def load_later(self) -> None:
        """What has been written since."""
        if self.end is None or self._loading:
            return
        self._loading = True
        try:
            answer = await self._ask({"after": self.end, "bytes": CHUNK_BYTES})
        finally:
            self._loading = False
        if answer is None:
            return
        if answer["size"] < self.end:
            # It was rotated: what is at the end now is another file.
            self.load_end()
            return
        self.end = answer["end"]
        self.log_view.extend(answer["lines"])
        self._badge()

    @on(LogView.ReachedTop)
    def _reached_top(self, event: LogView.ReachedTop) -> None:
        event.stop()
        self.load_earlier()

    @work(name="log-earlier", group="log-earlier", exclusive=True, exit_on_error=False)
    async def load_earlier(self) -> None:
        """What was written before the first line here."""
        if not self.start:
            return
        answer = await self._ask({"before": self.start, "bytes": CHUNK_BYTES})
        if answer is not None and answer["start"] < self.start:
            self.start = answer["start"]
            self.log_view.prepend(answer["lines"])
            self._badge()

    async def _ask(self, params: dict[str, Any]) -> dict[str, Any] | None:
        try:
            answer = await self.desk.ask("log", params)
        except OperatorError as error:
            self.error = error
            return None
        self.error = None
        return read_log(answer)

    def show(self, view: View) -> None:
        self.log_view.set_class(not view.link.fresh, "-stale")
        size = view.snapshot.log.size if view.snapshot is not None else None
        if view.link.fresh and size is not None and self.end is not None and size != self.end:
            self.load_later()
        self._badge()

    @on(LogView.Moved)
    def _moved(self, event: LogView.Moved) -> None:
        event.stop()
        self._badge()

    def _badge(self) -> None:
        if not self.is_mounted:
            return
        log = self.log_view
        empty = self.end == 0 and not log.line_count and self.error is None
        words = Text(f"log  {no_log_words(self.desk.view)}", DIM)
        self.query_one("#badge", Block).show([words if empty else badge(log, self.searched, self.error, self.start)])

    def action_search(self) -> None:
        """Open the search."""
        box = self.query_one("#search", Input)
        box.display = True
        box.focus()

    @on(Input.Submitted, "#search")
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        try:
            pattern = compile_pattern(event.value) if event.value else None
        except OperatorError as error:
            self.say(error, "error")
            return
        self.searched = event.value
        self.log_view.search(pattern)
        self._close_search()
        self.log_view.jump(-1)

    def _close_search(self) -> None:
        self.query_one("#search", Input).display = False
        self.log_view.focus()

    def action_back(self) -> None:
        """End the search, or leave."""
        if self.query_one("#search", Input).display:
            self._close_search()
        elif self.searched:
            self.searched = ""
            self.log_view.search(None)
            self._badge()
        else:
            super().action_back()

    def action_next_match(self) -> None:
        """The next match."""
        self.log_view.jump(1)

    def action_previous_match(self) -> None:
        """The match before."""
        self.log_view.jump(-1)

    def action_follow(self) -> None:
        """Follow, or stay."""
        self.log_view.follow(not self.log_view.following)

    def action_level(self) -> None:
        """All lines, warnings and errors, or errors only."""
        self.log_view.show_level(Level((self.log_view.level + 1) % len(Level)))
        self._badge()

    def action_copy(self) -> None:
        """The lines on the screen."""
        copy_text(self, "\n".join(self.log_view.visible_text()))

    def action_sideways(self, columns: int) -> None:
        """Along a long line."""
        self.log_view.scroll_relative(x=columns, animate=False)

    def action_down(self) -> None:
        """A line down."""
        self.log_view.scroll_relative(y=1, animate=False)

    def action_up(self) -> None:
        """A line up."""
        self.log_view.scroll_relative(y=-1, animate=False)

    def action_page_down(self) -> None:
        """A page down."""
        self.log_view.scroll_page_down(animate=False)

    def action_page_up(self) -> None:
        """A page up."""
        self.log_view.scroll_page_up(animate=False)

    def action_top(self) -> None:
        """To the first line that is loaded; earlier ones follow."""
        self.log_view.follow(False)
        self.log_view.scroll_home(animate=False)

    def action_bottom(self) -> None:
        """To the end, and follow it."""
        self.log_view.follow(True)


def read_log(answer: object) -> dict[str, Any]:
    """The agent's answer with every line cleaned and every number a number."""
    value = answer if isinstance(answer, dict) else {}
    lines = value.get("lines")
    numbers = {key: value.get(key) for key in ("start", "end", "size")}
    return {
        **{key: number if isinstance(number, int) else 0 for key, number in numbers.items()},
        "lines": [clean(line, LINE_LIMIT) for line in lines] if isinstance(lines, list) else [],
    }


def badge(log: LogView, searched: str, error: OperatorError | None, start: int | None) -> Text:
    """What stands above the log: following or paused, what is shown, what is searched."""
    out = Text("log  ", no_wrap=True)
    if log.following:
        out.append("● following", GOOD)
    else:
        out.append(f"‖ PAUSED +{log.new_lines:,}", LOOK)
    if searched:
        at = f"{log.match_number:,} of " if log.match_number is not None else ""
        out.append(f"   /{clean(searched, 40)}/ {at}{log.match_count:,} lines", "" if log.match_count else LOOK)
    if log.level is not Level.ALL:
        out.append(f"   {_LEVEL_WORDS[log.level]}", LOOK)
    out.append(f"   {log.line_count:,} lines", DIM)
    if start:
        out.append(" and more before them", DIM)
    if error is not None:
        out.append(f"   {clean(error, 200)}", ACT)
    return out
