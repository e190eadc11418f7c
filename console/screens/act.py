"""The dialog of every action that is dangerous: it prints the frozen proposal, asks, and then shows the stages live."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum
from typing import ClassVar

from rich.text import Text
from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.events import Resize
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Button

from console.ports import Ask, Outcome, Proposal
from console.present_top import LEVEL_TONES
from console.screens.dialog import Dialog
from console.view import Level
from remote.errors import OperatorError
from remote.text import clean
from widgets.card import Block
from widgets.paragraph import Paragraph
from widgets.stage_list import Stage, stage_lines
from widgets.tones import ACT, DIM, GOOD, LOOK, STRONG

COUNTDOWN_S = 5


class Phase(StrEnum):
    """Where the dialog is."""

    ASKING = "asking the container"
    READY = "ready"
    WORKING = "working"
    OVER = "over"


class ActDialog(Dialog[Outcome]):
    """Gets a proposal from `propose`, asks as it says, executes it, and stays until it was read.

    Esc while it works only closes the dialog's eyes: what was begun on the container completes there.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "yes", "Yes", show=False),
        Binding("j,down", "choose(1)", show=False),
        Binding("k,up", "choose(-1)", show=False),
        *(Binding(str(number), f"pick({number - 1})", show=False) for number in range(1, 6)),
    ]

    def __init__(self, title: str, propose: Callable[[], Awaitable[Proposal]]) -> None:
        super().__init__(title)
        self._propose = propose
        self.phase = Phase.ASKING
        self.proposal: Proposal | None = None
        self.outcome: Outcome | None = None
        self.choice = 0
        self.seconds_left = COUNTDOWN_S
        self._countdown: Timer | None = None
        self._stages: tuple[Stage, ...] = ()

    def body(self) -> Iterable[Widget]:
        yield Paragraph("freezing the target, and asking the container what would happen …", id="target")
        yield Paragraph(id="gist")
        yield Block(id="stages")
        yield Paragraph(id="remarks")
        yield Paragraph(id="choices")
        yield Paragraph(id="question")

    def buttons(self) -> Iterable[Button]:
        yield from super().buttons()
        yield Button(Text("y"), id="yes", variant="warning")

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one("#yes", Button).display = False
        self._ask()

    @work(name="proposal", group="act", exclusive=True, exit_on_error=False)
    async def _ask(self) -> None:
        proposal = await self._propose()
        self.proposal, self.phase = proposal, Phase.READY
        self.query_one("#frame").border_title = Text(proposal.title)
        self._paint()
        self._maybe_count()

    def failed(self, error: OperatorError) -> None:
        """Nothing was done: say why, in the dialog itself."""
        before = self.phase
        self.phase = Phase.OVER
        words = "nothing was changed" if before is Phase.ASKING else "nothing was done"
        self.outcome = Outcome(False, f"{clean(error.message, 400)}; {words}")
        self._paint()
        if self.proposal is None:
            self._say("#target", Text(""))
        text = Text.assemble((f"✗ {clean(error.message, 400)}\n", ACT))
        if error.remedy:
            text.append(f"{clean(error.remedy, 400)}\n", "")
        text.append(words, DIM)
        self._say("#question", text)

    def on_armed(self) -> None:
        self._maybe_count()

    def _maybe_count(self) -> None:
        proposal = self.proposal
        if self.armed and proposal is not None and proposal.ask is Ask.COUNTDOWN and self._countdown is None:
            self._countdown = self.set_interval(1.0, self.tick)
            self._paint()

    def tick(self) -> None:
        """A second of the countdown."""
        if self.phase is not Phase.READY:
            return
        self.seconds_left -= 1
        if self.seconds_left <= 0:
            self._go()
        else:
            self._paint()

    def action_choose(self, step: int) -> None:
        """The next or the previous way of doing it; moving never acts."""
        if self.proposal is not None and self.proposal.choices:
            self.choice = (self.choice + step) % len(self.proposal.choices)
            self._paint()

    def action_pick(self, number: int) -> None:
        """A way of doing it by its number; picking never acts."""
        if self.proposal is not None and number < len(self.proposal.choices):
            self.choice = number
            self._paint()

    def action_yes(self) -> None:
        """Do what is printed."""
        proposal = self.proposal
        if self.phase is Phase.READY and proposal is not None and proposal.ask in (Ask.YES, Ask.COUNTDOWN):
            self._go()

    def action_cancel(self) -> None:
        if self._countdown is not None:
            self._countdown.stop()
        if self.phase is not Phase.WORKING:
            self.phase = Phase.OVER
        self.dismiss(self.outcome)

    @on(Button.Pressed, "#yes")
    def _yes_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        self.action_yes()

    def _go(self) -> None:
        if self._countdown is not None:
            self._countdown.stop()
        self.phase = Phase.WORKING
        self._paint()
        self._work()

    @work(name="execute", group="act", exclusive=True, exit_on_error=False)
    async def _work(self) -> None:
        proposal = self.proposal
        assert proposal is not None
        choice = proposal.choices[self.choice].id if proposal.choices else ""
        self.outcome = await proposal.execute(choice, self._progress)
        self.phase = Phase.OVER
        self._paint()
        self.call_after_refresh(self.query_one("#dialog-body", VerticalScroll).scroll_end, animate=False)

    def _progress(self, stages: tuple[Stage, ...]) -> None:
        if self.is_mounted:
            width = self.query_one("#dialog-body").size.width or 78
            self._stages = stages
            block = self.query_one("#stages", Block)
            block.display = bool(stages)
            block.show(stage_lines(stages, max(40, width)))

    def on_resize(self, event: Resize) -> None:
        """The stages are broken to the width there is."""
        super().on_resize(event)
        self.call_after_refresh(self._progress, self._stages)

    def _say(self, selector: str, words: Text) -> None:
        self.query_one(selector, Paragraph).say(words)

    def _paint(self) -> None:
        proposal = self.proposal
        if not self.is_mounted:
            return
        yes, cancel = self.query_one("#yes", Button), self.query_one("#cancel", Button)
        if proposal is not None:
            self._say("#target", _target(proposal))
            self._say("#gist", Text("\n").join(Text(clean(line, 400)) for line in proposal.gist))
            if self.phase is Phase.READY:
                self._progress(proposal.stages)
            self._say("#remarks", _remarks(proposal))
            self._say("#choices", _choices(proposal, self.choice))
        asks = self.phase is Phase.READY and proposal is not None and proposal.ask in (Ask.YES, Ask.COUNTDOWN)
        yes.display = asks
        if asks and proposal is not None:
            yes.label = Text(f"y {proposal.yes}")
        cancel.label = Text(self._cancel_words())
        self._say("#question", self._question())

    def _cancel_words(self) -> str:
        if self.phase is Phase.READY and self.proposal is not None and self.proposal.ask in (Ask.YES, Ask.COUNTDOWN):
            return "Esc cancel"
        return "Esc close"

    def _question(self) -> Text:
        proposal, outcome = self.proposal, self.outcome
        if outcome is not None:
            mark = "✓" if outcome.ok else "✗"
            out = Text.assemble((f"{mark} {clean(outcome.headline, 400)}", GOOD if outcome.ok else ACT))
            for remark in outcome.remarks:
                out.append(f"\n  {clean(remark.text, 400)}", LEVEL_TONES[remark.level])
            if outcome.press:
                out.append(f"\n  Esc, then {outcome.press}", STRONG)
            return out
        if proposal is None:
            return Text("")
        if self.phase is Phase.WORKING:
            return Text("working; what was begun completes on the container even when this window is closed", DIM)
        if proposal.ask is Ask.NOTHING:
            return Text("Nothing would change, so nothing is done.", LOOK)
        if proposal.ask is Ask.BLOCKED:
            return Text("It cannot be done now: see the lines marked ✗ above.", ACT)
        if proposal.ask is Ask.COUNTDOWN:
            words = f"{clean(proposal.yes, 200)} in {self.seconds_left} s"
            return Text.assemble((words, STRONG), ("   y now, Esc cancels", DIM))
        return Text("Nothing on disk is removed.", DIM)


def _target(proposal: Proposal) -> Text:
    return Text("\n").join(Text(clean(line, 300), STRONG if not at else "") for at, line in enumerate(proposal.target))


def _remarks(proposal: Proposal) -> Text:
    marks = {Level.CRITICAL: "✗", Level.WARNING: "!", Level.NOTE: "·"}
    lines = []
    for remark in proposal.remarks:
        tone = DIM if remark.level is Level.NOTE else ""
        mark = (f"{marks[remark.level]} ", LEVEL_TONES[remark.level])
        lines.append(Text.assemble(mark, (clean(remark.text, 400), tone)))
    return Text("\n").join(lines)


def _choices(proposal: Proposal, chosen: int) -> Text:
    wide = max((len(choice.word) for choice in proposal.choices), default=0)
    lines = []
    for at, choice in enumerate(proposal.choices):
        mark = "▸" if at == chosen else " "
        word = (f"{mark} {at + 1} {choice.word.ljust(wide)}  ", STRONG if at == chosen else DIM)
        lines.append(Text.assemble(word, (clean(choice.meaning, 300), "" if at == chosen else DIM)))
    return Text("\n").join(lines)
