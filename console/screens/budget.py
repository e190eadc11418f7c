"""Another token budget: what it would mean, and whether the running process should have it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from rich.text import Text
from textual import on, work
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Button, Input

from console import text
from console.desk import Desk
from console.ports import Outcome
from console.screens.dialog import Dialog
from remote.errors import OperatorError
from remote.options import Budget, parse_budget
from remote.text import clean
from widgets.card import Block
from widgets.paragraph import Paragraph
from widgets.tones import ACT, DIM, GOOD, LOOK, STRONG


class BudgetDialog(Dialog[Outcome]):
    """Enter shows what a budget means; `u` uses it for trace and restart here; `y` gives it to the running process."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("u", "use", "Use", show=False),
        Binding("y", "yes", "Apply", show=False),
    ]

    def __init__(self, desk: Desk) -> None:
        super().__init__("token budget")
        self.desk = desk
        self.tried: Budget | None = None

    def body(self) -> Iterable[Widget]:
        yield Paragraph("tokens a dataset: 10M, 500k; for some: B4=20M,B5=5M; 0 is none", tone=DIM)
        yield Input(value=str(self.desk.options.token_budget), id="budget", compact=True)
        yield Paragraph("Enter shows what it would mean", id="message", tone=DIM)
        yield Block(id="meaning")

    def buttons(self) -> Iterable[Button]:
        yield from super().buttons()
        yield Button(Text("u use for trace and restart"), id="use")
        yield Button(Text("y apply"), id="yes", variant="warning")

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one("#budget", Input).disabled = True
        self._offer()

    def on_armed(self) -> None:
        box = self.query_one("#budget", Input)
        box.disabled = False
        box.focus()

    def _offer(self) -> None:
        """Offer only what can work now."""
        view = self.desk.view
        generator = view.snapshot.generator if view.snapshot is not None else None
        self.query_one("#use", Button).display = self.tried is not None
        yes = self.query_one("#yes", Button)
        yes.display = self.tried is not None and view.can_act and generator is not None and generator.running
        if generator is not None and generator.running:
            yes.label = Text(f"y apply to pid {generator.pid} now")

    def _say(self, words: Text) -> None:
        self.query_one("#message", Paragraph).say(words)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.tried = None
        try:
            budget = parse_budget(event.value)
        except OperatorError as error:
            self._say(Text(clean(str(error), 300), ACT))
            self._offer()
            return
        self._say(Text("asking the container …", DIM))
        self._preview(budget)

    @work(name="budget-plan", group="budget", exclusive=True, exit_on_error=False)
    async def _preview(self, budget: Budget) -> None:
        options = self.desk.view.options
        now = await self.desk.plan(options)
        then = await self.desk.plan(replace(options, token_budget=budget))
        self.tried = budget
        self.query_one("#meaning", Block).show(meaning_lines(now, then))
        self._say(Text(f"what {budget} would mean, beside {options.token_budget} of the settings", STRONG))
        self._offer()
        self.query_one("#cancel", Button).focus()

    def failed(self, error: OperatorError) -> None:
        self._say(Text(clean(str(error), 400), ACT))

    def action_use(self) -> None:
        """From now on trace and restart of this console use it; nothing on the container changes."""
        if self.tried is not None:
            self.desk.budget = self.tried
            self.dismiss(Outcome(True, f"trace and restart now use {self.tried}"))

    def action_yes(self) -> None:
        """Give it to the running process."""
        if self.tried is not None and self.query_one("#yes", Button).display:
            self._apply(self.tried)

    @work(name="budget-apply", group="budget", exclusive=True, exit_on_error=False)
    async def _apply(self, budget: Budget) -> None:
        outcome = await self.desk.operations.apply_budget(self.desk.controller, budget)
        self.desk.budget = budget
        self.notify(clean(outcome.headline, 300), markup=False, severity="information" if outcome.ok else "error")
        self.dismiss(outcome)

    @on(Button.Pressed, "#use")
    def _use_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        self.action_use()

    @on(Button.Pressed, "#yes")
    def _yes_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        self.action_yes()


def meaning_lines(now: Mapping[str, Any], then: Mapping[str, Any]) -> list[Text]:
    """Both plans side by side, one line a dataset, with totals; what differs is marked and stands out."""
    before = {row.get("name"): row for row in _rows(now)}
    out = [Text(f"  {'ID':4}{'now':<22}{'then':<22}{'new tokens':>12}", DIM)]
    for row in _rows(then):
        old = _decision(before.get(row.get("name"), {}))
        new = _decision(row)
        tokens = _inference(row).get("expected_tokens")
        changed = old != new
        line = Text(f"{'▸' if changed else ' '} {clean(row.get('id', ''), 4):4}", LOOK if changed else "")
        line.append(f"{old:<22}", DIM)
        line.append(f"{new:<22}", STRONG if changed else "")
        line.append(f"{text.tokens(tokens if isinstance(tokens, (int, float)) else None):>12}")
        out.append(line)
    for name, plan in (("now", now), ("then", then)):
        totals = plan.get("totals") or {}
        seconds = totals.get("expected_s")
        words = f"{text.tokens(totals.get('expected_tokens'))} new tokens, {text.duration(seconds)}"
        out.append(Text(f"  {name:6}{words}", GOOD if name == "then" else DIM))
    return out


def _rows(plan: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    rows = plan.get("datasets")
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _inference(row: Mapping[str, Any]) -> Mapping[str, Any]:
    value = row.get("inference")
    return value if isinstance(value, dict) else {}


def _decision(row: Mapping[str, Any]) -> str:
    inference = _inference(row)
    reason = str(inference.get("reason") or "").replace("-", " ")
    return clean(f"{inference.get('decision') or '–'}, {reason}" if reason else inference.get("decision") or "–", 21)
