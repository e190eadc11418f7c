"""Nothing is set up yet: paste the ssh command of the container, and this saves it as a profile."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Input

from console import keys
from console.keys import Key
from console.screens.base import ConsoleScreen
from console.view import View
from remote.errors import OperatorError
from remote.text import clean
from widgets.paragraph import Paragraph
from widgets.tones import ACT, DIM, STRONG

if TYPE_CHECKING:
    from console.app import ConsoleApp


class FirstRunScreen(ConsoleScreen):
    """Takes an address, saves it, and opens it; the link then says how it goes."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "app.leave", show=False)]
    AUTO_FOCUS: ClassVar[str | None] = "Input"

    def body(self) -> Iterable[Widget]:
        with Vertical(id="first-run"):
            yield Paragraph("Which container?", tone=STRONG)
            words = "Paste the ssh command your provider shows, or write user@host:port, or an alias of ~/.ssh/config."
            yield Paragraph(words)
            yield Input(placeholder="ssh root@1.2.3.4 -p 22001 -i ~/.ssh/id_ed25519", id="address", compact=True)
            yield Paragraph(id="answer")
            words = "Enter saves it as a profile and connects; nothing on the container is changed by connecting."
            yield Paragraph(words, tone=DIM)
            words = "Without a container at hand: leave with Esc and run  eagle3-console demo"
            yield Paragraph(words, tone=DIM)

    def all_keys(self) -> tuple[Key, ...]:
        return (keys.BACK,)

    def top(self, view: View) -> Text:
        return Text("eagle3-console   first start", STRONG)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._add(event.value)

    @work(name="add", group="add", exclusive=True, exit_on_error=False)
    async def _add(self, words: str) -> None:
        answer = self.query_one("#answer", Paragraph)
        targets = self.desk.targets
        if targets is None or not words.strip():
            return
        try:
            name = await targets.add(words)
        except OperatorError as error:
            answer.say(Text(clean(error, 400), ACT))
            return
        cast("ConsoleApp", self.app).switch_target(name)
