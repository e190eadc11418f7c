"""The dry run: what a restart would do to each dataset, and why. It changes nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from rich.text import Text
from textual import work
from textual.binding import BindingType

from console import keys, text
from console.desk import Desk
from console.keys import Key
from console.ports import Outcome
from console.screens.budget import BudgetDialog
from console.screens.copying import copy_text
from console.screens.scrolled import PageScreen, error_lines
from console.screens.starting import start_restart
from console.trace_text import TraceLine, plain, trace_lines
from console.view import View
from remote.errors import OperatorError
from widgets.tones import ACT, DIM, GOOD, LOOK, STRONG

_STYLES = {"title": STRONG, "dim": DIM, "ok": GOOD, "warning": LOOK, "bad": ACT, "key": STRONG}

MOST_COLUMNS = 140
"""Wider, evidence at the right edge would stand too far from what it is the evidence of."""


class TraceScreen(PageScreen):
    """`plan --json` of the container, as `trace` prints it, coloured."""

    KEYS: ClassVar[tuple[Key, ...]] = keys.TRACE
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings(*keys.TRACE)]

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.plan: Mapping[str, Any] | None = None
        self.error: OperatorError | None = None

    def on_mount(self) -> None:
        super().on_mount()
        self.ask()

    @work(name="plan", group="plan", exclusive=True, exit_on_error=False)
    async def ask(self) -> None:
        """Ask the container for the plan and show it."""
        self.error = None
        try:
            self.plan = await self.desk.plan()
        except OperatorError as error:
            self.plan, self.error = None, error
        self.refresh_view()

    def lines(self, view: View) -> Sequence[Text]:
        if self.error is not None:
            return error_lines(self.error)
        if self.plan is None:
            return [Text("asking the container what its code would do …", DIM)]
        return [trace_line(line) for line in self._lines()]

    def _lines(self) -> list[TraceLine]:
        return trace_lines(self.plan or {}, min(self.page_width, MOST_COLUMNS))

    def action_again(self) -> None:
        """Ask again."""
        self.ask()

    def action_budget(self) -> None:
        """Another budget; the trace changes with it."""
        self.app.push_screen(BudgetDialog(self.desk), self._budget_tried)

    def _budget_tried(self, outcome: Outcome | None) -> None:
        if outcome is not None:
            self.ask()

    def action_restart(self) -> None:
        """Restart with what is shown."""
        start_restart(self.app, self.desk)

    def action_copy(self) -> None:
        """The whole trace as text."""
        copy_text(self, plain(self._lines()) if self.plan is not None else "")

    @work(name="save", group="save", exclusive=True, exit_on_error=False)
    async def action_save(self) -> None:
        """Keep the plan as JSON in a file, for `restart --plan`."""
        if self.plan is None:
            self.say("there is no trace to save yet", "warning")
            return
        path = await asyncio.to_thread(save_plan, self.plan, self.desk.view.container_now)
        self.say(f"saved as {path}; eagle3-console restart --plan {path.name} refuses if the state differs from it")


def trace_line(line: TraceLine) -> Text:
    """A line of the trace with its colours."""
    out = Text(no_wrap=True)
    for span in line.spans:
        out.append(span.text, _STYLES.get(span.style, ""))
    return out


def save_plan(plan: Mapping[str, Any], at: float) -> Path:
    """Write a plan into a new file of the working folder; never over another one. Raises OperatorError."""
    stamp = text.clock(at).replace(":", "")
    for number in range(100):
        path = Path(f"trace-{stamp}{f'-{number}' if number else ''}.json").absolute()
        try:
            with path.open("x", encoding="utf-8") as file:
                json.dump(plan, file, indent=1, ensure_ascii=False)
                file.write("\n")
        except FileExistsError:
            continue
        except OSError as error:
            raise OperatorError("not-saved", f"{path} cannot be written: {error.strerror}") from None
        return path
    raise OperatorError("not-saved", f"{path.parent} is full of traces of this second")
