"""Nothing is set up yet: paste the ssh command of the container; it is tried, and saved as a profile when it works."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Input

from console import keys
from console.invoked import program
from console.keys import Key
from console.ports import Targets
from console.reaching import became
from console.screens.base import ConsoleScreen
from console.screens.hostkey import HostKeyDialog
from console.view import LinkState, View
from remote.errors import OperatorError
from remote.text import clean
from widgets.paragraph import Paragraph
from widgets.tones import ACT, DIM, STRONG

if TYPE_CHECKING:
    from console.app import ConsoleApp


class FirstRunScreen(ConsoleScreen):
    """Takes an address, connects to it, saves it when that works, and shows it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "app.leave", show=False)]
    AUTO_FOCUS: ClassVar[str | None] = "Input"
    _failed: str = ""
    """What could not be reached: given again, it is saved unseen, for a container that is not up yet."""

    def body(self) -> Iterable[Widget]:
        with Vertical(id="first-run"):
            yield Paragraph("Which container?", tone=STRONG)
            words = "Paste the ssh command your provider shows, or write user@host:port, or an alias of ~/.ssh/config."
            yield Paragraph(words)
            yield Input(placeholder="ssh root@1.2.3.4 -p 22001 -i ~/.ssh/id_ed25519", id="address", compact=True)
            yield Paragraph(id="answer")
            words = "Enter connects, and saves it as a profile when that works; connecting changes no data there."
            yield Paragraph(words, tone=DIM)
            words = f"Without a container at hand: leave with Esc and run  {program()} demo"
            yield Paragraph(words, tone=DIM)

    def all_keys(self) -> tuple[Key, ...]:
        return keys.FIRST_RUN

    def top(self, view: View) -> Text:
        return Text.assemble(("eagle3-console   ", DIM), ("first start", STRONG))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._add(event.value)

    def action_connect(self) -> None:
        """The key bar's Enter, clicked."""
        self._add(self.query_one("#address", Input).value)

    def action_leave(self) -> None:
        """The key bar's Esc, clicked."""
        cast("ConsoleApp", self.app).action_leave()

    @work(name="add", group="add", exclusive=True, exit_on_error=False)
    async def _add(self, words: str) -> None:
        targets = self.desk.targets
        if targets is None or not words.strip():
            return
        try:
            if words == self._failed:
                name = await targets.add(words)
            else:
                name = await self._reach(targets, words)
                await targets.keep(name)
        except OperatorError as error:
            self._say(Text(clean(error, 400), ACT))
            return
        cast("ConsoleApp", self.app).switch_target(name)

    async def _reach(self, targets: Targets, words: str) -> str:
        """Connect before anything is saved; a key that nobody knows yet is asked about. Raises OperatorError."""
        name = await targets.begin(words)
        controller = targets.controller(name)
        assert controller is not None
        link = await became(controller, self._say_stage)
        if link.state is LinkState.UNKNOWN_KEY:
            dialog = HostKeyDialog(replace(self.desk, controller=controller))
            if await self.app.push_screen_wait(dialog):
                link = await became(controller, self._say_stage, after=link)
        if link.state is LinkState.LIVE:
            return name
        await targets.drop(name)
        self._failed = words
        raise OperatorError(
            link.code or "not-reached",
            link.error or f"it was not reached in time ({link.stage or 'connecting'})",
            f"{link.remedy + '; ' if link.remedy else ''}nothing is saved: Enter once more saves it all the same",
        )

    def _say_stage(self, stage: str) -> None:
        self._say(Text(f"connecting: {clean(stage, 100)}" if stage else "connecting", DIM))

    def _say(self, words: Text) -> None:
        self.query_one("#answer", Paragraph).say(words)
