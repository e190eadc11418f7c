"""A host key nobody knows yet: shown, and pinned only after an explicit yes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from rich.text import Text
from textual import on, work
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Button

from console.desk import Desk
from console.screens.dialog import Dialog
from remote.errors import OperatorError
from remote.text import clean
from widgets.paragraph import Paragraph
from widgets.tones import ACT, DIM, STRONG


class HostKeyDialog(Dialog[bool]):
    """Returns True when the key was pinned."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("y", "yes", show=False)]

    def __init__(self, desk: Desk) -> None:
        super().__init__(f"host key of {clean(desk.view.link.target, 60)}")
        self.desk = desk
        # Frozen: the controller may have another key to show by the time somebody answers.
        self.controller = desk.controller
        self.sentence, self.remedy = desk.view.link.error, desk.view.link.remedy

    def body(self) -> Iterable[Widget]:
        yield Paragraph(Text(clean(self.sentence, 600), STRONG))
        yield Paragraph(Text(clean(self.remedy, 600)))
        yield Paragraph(Text("Whoever answers with a key that you did not compare may be somebody else.", DIM))
        yield Paragraph(id="failure")

    def buttons(self) -> Iterable[Button]:
        yield from super().buttons()
        yield Button(Text("y the key is right: keep it and connect"), id="yes", variant="warning")

    def action_yes(self) -> None:
        """Pin it and connect."""
        self._trust()

    @on(Button.Pressed, "#yes")
    def _yes_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        self.action_yes()

    @work(name="trust", group="trust", exclusive=True, exit_on_error=False)
    async def _trust(self) -> None:
        if self.desk.targets is None:
            raise OperatorError("no-store", "this console has no place to keep the key", "connect once with ssh")
        await self.desk.targets.trust(self.controller, self.sentence)
        self.dismiss(True)

    def failed(self, error: OperatorError) -> None:
        self.query_one("#failure", Paragraph).say(Text(clean(error, 400), ACT))
