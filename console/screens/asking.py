"""A dialog that asks for one line of text."""

from __future__ import annotations

from collections.abc import Iterable

from textual import on
from textual.widget import Widget
from textual.widgets import Input

from console.screens.dialog import Dialog
from widgets.paragraph import Paragraph
from widgets.tones import DIM


class AskText(Dialog[str]):
    """Returns the line, "" when it was left empty, None when it was cancelled."""

    def __init__(self, title: str, explanation: str, value: str = "", placeholder: str = "") -> None:
        super().__init__(title)
        self.explanation, self.value, self.placeholder = explanation, value, placeholder

    def body(self) -> Iterable[Widget]:
        yield Paragraph(self.explanation, tone=DIM)
        yield Input(value=self.value, placeholder=self.placeholder, id="line", compact=True)
        yield Paragraph("Enter takes it, Esc cancels", tone=DIM)

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one("#line", Input).disabled = True

    def on_armed(self) -> None:
        box = self.query_one("#line", Input)
        box.disabled = False
        box.focus()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value.strip())
