"""What all full screens share: the top line, the key bar, keys that do nothing when they cannot work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.events import Resize
from textual.screen import Screen
from textual.widget import Widget
from textual.worker import Worker, WorkerState

from console.desk import Desk
from console.keys import BACK, EVERYWHERE, Key, Needs, allowed, bindings
from console.present_table import Width, width_of
from console.present_top import top_line
from console.view import View
from remote.errors import OperatorError
from remote.text import clean
from widgets.card import Block
from widgets.key_bar import KeyBar, KeyHint

TOO_SMALL = (24, 8)
"""Columns and lines below which only a line says that the terminal is too small."""


class ConsoleScreen(Screen[None]):
    """A screen with a top line, a body and a key bar.

    Subclasses name their `KEYS`, compose their `body()` and paint in `show(view)`; a view that
    arrives while the screen is not the topmost is painted when it comes back.
    """

    KEYS: ClassVar[tuple[Key, ...]] = ()
    TITLE_WORDS: ClassVar[str] = ""
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(BACK)]
    AUTO_FOCUS: ClassVar[str | None] = "*"

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self.desk = desk

    def compose(self) -> ComposeResult:
        yield Block(id="top")
        yield from self.body()
        yield KeyBar(id="keys")
        yield Block(id="too-small")

    def body(self) -> Iterable[Widget]:
        """The widgets between the top line and the key bar."""
        return ()

    def on_mount(self) -> None:
        self.refresh_view()

    def on_screen_resume(self) -> None:
        self.refresh_view()

    def on_resize(self, event: Resize) -> None:
        small = event.size.width < TOO_SMALL[0] or event.size.height < TOO_SMALL[1]
        self.set_class(small, "-too-small")
        self.query_one("#too-small", Block).show([_too_small(event.size.width, event.size.height)])
        self.refresh_view()

    @property
    def width(self) -> Width:
        """The layout for the terminal's width."""
        return width_of(self.app.size.width)

    def refresh_view(self) -> None:
        """Paint the latest view, if the screen is there to be painted."""
        # While the application leaves, what is on a screen goes before the screen does.
        if self.is_mounted and self.is_current and self.query("#top") and self.query("#keys"):
            view = self.desk.view
            self.query_one("#top", Block).show([self.top(view)])
            self.query_one("#keys", KeyBar).show(self.hints(view))
            self.show(view)

    def top(self, view: View) -> Any:
        """The top line; every screen says where one is and whether it is true now."""
        return top_line(view, self.app.size.width, self.width)

    def show(self, view: View) -> None:
        """Paint a view. Overridden by every screen that depends on it."""

    def all_keys(self) -> tuple[Key, ...]:
        """The keys of this screen and those that work everywhere."""
        return (*self.KEYS, BACK, *EVERYWHERE)

    def hints(self, view: View) -> list[KeyHint]:
        """The key bar: dimmed where a key can do nothing now."""
        return [
            KeyHint(self._shown(key), key.word, key.action, _allowed(key, view)) for key in self.all_keys() if key.bar
        ]

    def _shown(self, key: Key) -> str:
        return "Enter" if key.shown == "⏎" and self.desk.ascii_only else key.shown

    def help_words(self) -> str:
        """What the help says of the widget that has the focus."""
        return ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        key = next((key for key in self.KEYS if key.action == action), None)
        if key is None or key.needs is Needs.NOTHING:
            return True
        return _allowed(key, self.desk.view)

    @on(KeyBar.Pressed)
    async def _key_clicked(self, event: KeyBar.Pressed) -> None:
        event.stop()
        await self.run_action(event.action)

    def action_back(self) -> None:
        """Back to the screen before; from the first one there is no back."""
        if len(self.app.screen_stack) > 1:
            self.dismiss()

    def say(self, words: object, severity: Any = "information") -> None:
        """A short message in the corner; outside text is cleaned, never read as markup."""
        self.notify(clean(words, 300), severity=severity, markup=False, timeout=6)

    @on(Worker.StateChanged)
    def _worker_ended(self, event: Worker.StateChanged) -> None:
        """Workers do not end the program: what an operator can meet is said, anything else is a fault of ours."""
        if event.state is not WorkerState.ERROR or event.worker.node is not self:
            return
        error = event.worker.error
        if isinstance(error, OperatorError):
            self.say(error, "error")
        elif isinstance(error, Exception):
            self.app._handle_exception(error)  # private to Textual: the one place that ends the app with its text


def _allowed(key: Key, view: View) -> bool:
    return allowed(key, live=view.link.fresh, read_only=view.options.read_only, known=view.snapshot is not None)


def _too_small(columns: int, lines: int) -> Any:
    from rich.text import Text

    words = f"too small: {columns}×{lines}"
    return Text(words if columns >= len(words) else "too small")
