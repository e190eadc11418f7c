"""Dialogs: they take no key at first, they stand on Cancel, and they print what they are about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Generic, TypeVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.events import Resize
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Button
from textual.worker import Worker, WorkerState

from remote.errors import OperatorError

T = TypeVar("T")

ARM_S = 0.5
"""Keys typed before the dialog could be read (typed ahead on a slow link) do nothing."""

FRAME_PERCENT, FRAME_LINES = 96, 3
"""The frame's `max-height` in console.tcss; its border and its buttons."""


class Dialog(ModalScreen[T | None], Generic[T]):
    """A framed dialog with a title, a body and buttons; Esc and the button in focus first both cancel.

    Until `ARM_S` after it appeared no key and no button does anything. Subclasses yield their
    body and buttons; an action whose name is in `GUARDED` is refused until then.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", show=False),
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
        Binding("pagedown", "scroll(1)", show=False),
        Binding("pageup", "scroll(-1)", show=False),
    ]
    AUTO_FOCUS: ClassVar[str | None] = ""
    arm_s: ClassVar[float] = ARM_S

    def __init__(self, title: str) -> None:
        super().__init__()
        self.title_words = title
        self.armed = False

    def compose(self) -> ComposeResult:
        frame = Vertical(id="frame")
        frame.border_title = Text(self.title_words)
        with frame:
            with VerticalScroll(id="dialog-body", can_focus=False):
                yield from self.body()
            with Horizontal(id="buttons"):
                yield from self.buttons()

    def body(self) -> Iterable[Widget]:
        """What the dialog says."""
        return ()

    def buttons(self) -> Iterable[Button]:
        """The buttons, Cancel first."""
        yield Button(Text("Esc cancel"), id="cancel")

    def on_resize(self, event: Resize) -> None:
        """What there is to say scrolls where it has no room; the buttons are always there."""
        self.query_one("#dialog-body").styles.max_height = max(
            1, event.size.height * FRAME_PERCENT // 100 - FRAME_LINES
        )

    def action_scroll(self, pages: int) -> None:
        """A page down or up in what it says."""
        body = self.query_one("#dialog-body", VerticalScroll)
        body.scroll_relative(y=pages * max(1, body.size.height - 1), animate=False)

    def on_mount(self) -> None:
        for button in self.query(Button):
            button.disabled = True
        self.set_timer(self.arm_s, self.arm)

    def arm(self) -> None:
        """From now on keys count; the focus is on Cancel."""
        if self.armed:
            return
        self.armed = True
        for button in self.query(Button):
            button.disabled = False
        self.query_one("#cancel", Button).focus()
        self.on_armed()

    def on_armed(self) -> None:
        """Called once keys count."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.armed

    def action_cancel(self) -> None:
        """Close and do nothing."""
        self.dismiss(None)

    @on(Button.Pressed, "#cancel")
    def _cancel_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        self.action_cancel()

    @on(Worker.StateChanged)
    def _worker_ended(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR and event.worker.node is self:
            error = event.worker.error
            if isinstance(error, OperatorError):
                self.failed(error)
            elif isinstance(error, Exception):
                self.app._handle_exception(error)  # private to Textual: see ConsoleScreen

    def failed(self, error: OperatorError) -> None:
        """A worker of this dialog failed in a way that an operator can meet."""
        self.notify(str(error), severity="error", markup=False)
