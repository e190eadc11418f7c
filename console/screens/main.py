"""The main screen: what runs, on what, how far, what is wrong, and which key is next.

The other screens are imported when they are opened: the first paint does not wait for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from rich.text import Text
from textual import on, work
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widget import Widget

from console import keys, present_table, text
from console.keys import Key
from console.layout_main import MainLayout, main_layout
from console.present_engine import engine_card
from console.present_link import waiting_lines
from console.present_process import no_log_words, process_card, process_lines
from console.present_table import Order
from console.present_top import alert_lines, lines_wanted
from console.screens.base import ConsoleScreen
from console.screens.copying import copy_text
from console.view import LinkState, View
from widgets.card import Block, Card
from widgets.columns import columns_width, foot_line
from widgets.key_bar import KeyBar
from widgets.keyed_table import KeyedTable
from widgets.log_view import Level as LogLevel
from widgets.log_view import level_of
from widgets.paragraph import Paragraph
from widgets.tones import ACT, DIM, LOOK


class MainScreen(ConsoleScreen):
    """DESIGN's main screen, at any size from 200×60 down to 45×20."""

    KEYS: ClassVar[tuple[Key, ...]] = keys.MAIN
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings(*keys.MAIN, *keys.MOVES[:2])]
    AUTO_FOCUS: ClassVar[str | None] = "KeyedTable"
    order = Order.BY_RUN

    def body(self) -> Iterable[Widget]:
        with Horizontal(id="cards"):
            yield Card(id="process")
            yield Card(id="engine")
        yield Paragraph(id="waiting")
        yield KeyedTable(id="table")
        yield Block(id="foot")
        yield Block(id="alerts")
        yield Block(id="log-title")
        yield Block(id="log")

    def all_keys(self) -> tuple[Key, ...]:
        return (*self.KEYS, *keys.EVERYWHERE)

    def show(self, view: View) -> None:
        waiting = view.snapshot is None or view.link.state is LinkState.CHANGED_KEY
        self.set_class(waiting, "-waiting")
        page = self.query_one("#waiting", Paragraph)
        page.say(Text("\n").join(waiting_lines(view)) if waiting else Text(""))
        if waiting:
            return
        columns, lines = self.app.size
        snapshot = view.snapshot
        datasets = len(snapshot.datasets) if snapshot is not None else 8
        bar = self.query_one("#keys", KeyBar)
        wanted = lines_wanted(view, columns)
        shape = main_layout(self.width, lines, datasets, bar.line_count(columns - 2), wanted)
        self._show_cards(view, shape, columns)
        self._show_table(view, shape, columns)
        alerts = self.query_one("#alerts", Block)
        alerts.display = shape.alerts > 0
        alerts.show(alert_lines(view, columns, shape.alerts) if shape.alerts else [])
        self._show_log(view, shape, columns)

    def _show_cards(self, view: View, shape: MainLayout, columns: int) -> None:
        process, engine = self.query_one("#process", Card), self.query_one("#engine", Card)
        self.query_one("#cards").display = shape.process > 0
        self.set_class(shape.framed, "-framed")
        engine.display = shape.engine
        if shape.framed:
            process.show_value(process_card(view, shape.process))
            engine.show_value(engine_card(view, (), columns * 47 // 100 - 4, shape.process))
        else:
            process.show(process_lines(view, shape.process), not view.link.fresh)

    def _show_table(self, view: View, shape: MainLayout, columns: int) -> None:
        table, width = self.query_one("#table", KeyedTable), self.width
        budget = view.options.token_budget
        extra = columns - columns_width(present_table.columns(width, budget)) - 2
        cols = present_table.columns(width, budget, max(0, extra))
        stale = not view.link.fresh
        if table.styles.height is None or table.styles.height.value != shape.table:
            table.styles.height = shape.table
        table.show(cols, present_table.rows(view, cols, self.order), stale)
        foot = self.query_one("#foot", Block)
        foot.display = shape.foot and view.snapshot is not None
        foot.show([foot_line(cols, present_table.foot(view, cols))], stale)

    def _show_log(self, view: View, shape: MainLayout, columns: int) -> None:
        title, log = self.query_one("#log-title", Block), self.query_one("#log", Block)
        title.display = log.display = shape.log_title
        if not shape.log_title:
            return
        lines = view.snapshot.log.lines if view.snapshot is not None else ()
        words = "log" if lines else "seen from here"
        title.show([Text(f"─ {words} {'─' * max(0, columns - 5 - len(words))}", DIM)])
        room = max(1, log.size.height)
        shown = lines or self.desk.observed.lines
        today = f"{text.day(view.container_now)} "
        log.show(
            [_log_line(line.removeprefix(today)) for line in shown[-room:]] or [Text(no_log_words(view), DIM)],
            not view.link.fresh,
        )

    @on(KeyedTable.Selected)
    def _selected(self, event: KeyedTable.Selected) -> None:
        event.stop()
        self.action_detail()

    def action_detail(self) -> None:
        """A dataset's details."""
        folder = self.query_one("#table", KeyedTable).row_key
        if folder is not None:
            from console.screens.detail import DetailScreen

            self._open(DetailScreen(self.desk, folder))

    def _open(self, screen: Screen[None]) -> None:
        self.app.push_screen(screen)

    def action_trace(self) -> None:
        """The dry run."""
        from console.screens.trace import TraceScreen

        self._open(TraceScreen(self.desk))

    def action_log(self) -> None:
        """The log."""
        from console.screens.log import LogScreen

        self._open(LogScreen(self.desk))

    def action_engine(self) -> None:
        """Engine and GPUs."""
        from console.screens.engine import EngineScreen

        self._open(EngineScreen(self.desk))

    def action_alerts(self) -> None:
        """Alerts, audit, notes, hold."""
        from console.screens.alerts import AlertsScreen

        self._open(AlertsScreen(self.desk))

    def action_schema(self) -> None:
        """Schema problems."""
        from console.screens.schema import SchemaScreen

        self._open(SchemaScreen(self.desk))

    def action_budget(self) -> None:
        """Another budget."""
        from console.screens.budget import BudgetDialog

        self.app.push_screen(BudgetDialog(self.desk))

    def action_restart(self) -> None:
        """Restart: frozen now, shown, asked."""
        from console.screens.starting import start_restart

        start_restart(self.app, self.desk)

    def action_kill(self) -> None:
        """Kill: what is frozen now is what is killed."""
        from console.screens.starting import start_kill

        start_kill(self.app, self.desk)

    def action_tokenize(self) -> None:
        """Rebuild tokenized data."""
        from console.screens.starting import start_tokenize

        start_tokenize(self.app, self.desk)

    @work(name="pause", group="pause", exclusive=True, exit_on_error=False)
    async def action_pause(self) -> None:
        """Pause or resume."""
        snapshot = self.desk.view.snapshot
        paused = snapshot is not None and bool(snapshot.generator.paused)
        outcome = await self.desk.operations.pause(self.desk.controller, not paused)
        self.say(outcome.headline, "information" if outcome.ok else "error")

    def action_targets(self) -> None:
        """Other targets."""
        if self.desk.targets is None:
            self.say("there is only this target; give it a profile to have others here")
        else:
            from console.screens.targets import TargetsScreen

            self._open(TargetsScreen(self.desk))

    def action_copy(self) -> None:
        """The row under the cursor as text."""
        table = self.query_one("#table", KeyedTable)
        copy_text(self, table.row_text())

    def action_order(self) -> None:
        """Another order of the rows; the cursor stays on its dataset."""
        self.order = self.order.next
        self.refresh_view()
        self.say(f"rows {self.order.value}")

    def action_down(self) -> None:
        """A row down."""
        self.query_one("#table", KeyedTable).action_cursor_down()

    def action_up(self) -> None:
        """A row up."""
        self.query_one("#table", KeyedTable).action_cursor_up()


def _log_line(line: str) -> Text:
    tone = {LogLevel.ALL: "", LogLevel.WARNINGS: LOOK, LogLevel.ERRORS: ACT}[level_of(line)]
    return Text(line, tone)
