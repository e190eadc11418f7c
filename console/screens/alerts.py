"""Alerts, the audit, notes for the next shift, and the hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual import work
from textual.binding import BindingType
from textual.widget import Widget

from console import keys, text
from console.keys import Key
from console.model import AuditEntry
from console.ports import Outcome
from console.present_top import LEVEL_TONES
from console.screens.asking import AskText
from console.screens.base import ConsoleScreen
from console.view import Alert, Level, View
from remote.text import clean
from widgets.card import Block
from widgets.columns import Column, Row
from widgets.keyed_table import KeyedTable
from widgets.paragraph import Paragraph
from widgets.tones import DIM, GOOD, LOOK, STRONG, UNKNOWN

WELL = ("done", "ok", "running", "stopped")
"""Outcomes of what went as it should: a launch that runs, a kill after which it has stopped."""

MOST_CELLS = 24
"""A longer name or outcome is cut: the detail is what one reads."""


class AlertsScreen(ConsoleScreen):
    """The alerts in a table with the one under the cursor in full; below, who did what, when."""

    KEYS: ClassVar[tuple[Key, ...]] = keys.ALERTS
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings(*keys.ALERTS, *keys.MOVES[:2])]
    AUTO_FOCUS: ClassVar[str | None] = "KeyedTable"

    def body(self) -> Iterable[Widget]:
        yield Block(id="hold-line")
        yield KeyedTable(id="alert-table")
        yield Paragraph(id="alert-text")
        yield Block(id="audit-title")
        yield Block(id="audit")

    def show(self, view: View) -> None:
        hold = view.snapshot.hold if view.snapshot is not None else None
        line = Text("no hold", DIM)
        if hold is not None:
            until = f", until {text.moment(hold.until, view.container_now)} UTC" if hold.until is not None else ""
            line = Text(f"HOLD by {hold.by or '–'}: {hold.reason}{until}", LOOK)
        self.query_one("#hold-line", Block).show([line])
        table = self.query_one("#alert-table", KeyedTable)
        columns = self._columns()
        rows = [_alert_row(alert, view) for alert in _sorted(view)]
        table.show(columns, rows, not view.link.fresh)
        table.display = bool(rows)
        table.styles.height = min(len(rows) + 1, max(3, self.app.size.height // 2))
        self._show_chosen(view)
        audit = self.query_one("#audit", Block)
        self.query_one("#audit-title", Block).show(
            [Text("audit: who did what on this container, newest first", STRONG)]
        )
        entries = sorted(view.snapshot.audit if view.snapshot else (), key=lambda entry: -(entry.at or 0.0))
        audit.show(audit_lines(entries, view) or [Text("nothing yet", DIM)])

    def _columns(self) -> tuple[Column, ...]:
        room = max(20, self.app.size.width - 2 - (10 + 12 + 12 + 8))
        return (
            Column("level", "level", 10),
            Column("since", "since", 12),
            Column("sentence", "what", room),
            Column("seen", "seen by", 12),
        )

    def _chosen(self) -> Alert | None:
        key = self.query_one("#alert-table", KeyedTable).row_key
        return next((alert for alert in self.desk.view.alerts if alert.key == key), None)

    def _show_chosen(self, view: View) -> None:
        alert = self._chosen()
        lines = [Text("✓ no alerts", GOOD)] if not view.alerts else []
        if alert is not None:
            lines += [Text(part) for part in text.wrap(clean(alert.sentence, 600), max(20, self.app.size.width - 4))]
            age_s = view.age_s(alert.since) or 0.0
            lines.append(Text(f"for {text.duration(age_s)}" if age_s >= 1 else "since just now", DIM))
            step = f"next: {alert.next_step}" + (f"  (key {alert.press})" if alert.press else "")
            lines += [Text(part, STRONG) for part in text.wrap(step, max(20, self.app.size.width - 4))]
        self.query_one("#alert-text", Paragraph).say(Text("\n").join(lines))

    def on_keyed_table_highlighted(self) -> None:
        """Another alert is under the cursor."""
        self._show_chosen(self.desk.view)

    @work(name="ack", group="ack", exclusive=True, exit_on_error=False)
    async def action_ack(self) -> None:
        """Mark the alert under the cursor as seen, for everybody."""
        alert = self._chosen()
        if alert is None:
            self.say("there is no alert under the cursor")
            return
        self._told(await self.desk.operations.ack(self.desk.controller, alert))

    @work(name="note", group="asking", exclusive=True, exit_on_error=False)
    async def action_note(self) -> None:
        """A note for the next shift."""
        words = await self.app.push_screen_wait(
            AskText("a note for the next shift", "kept in the audit on the container")
        )
        if words:
            self._told(await self.desk.operations.note(self.desk.controller, words))

    @work(name="hold", group="asking", exclusive=True, exit_on_error=False)
    async def action_hold(self) -> None:
        """Set the hold, or lift it."""
        hold = self.desk.view.snapshot.hold if self.desk.view.snapshot is not None else None
        asked = "a restart must accept the hold by name; leave it empty to lift it"
        words = await self.app.push_screen_wait(AskText("hold: why?", asked, hold.reason if hold else ""))
        if words is not None and (words or hold is not None):
            self._told(await self.desk.operations.hold(self.desk.controller, words))

    def _told(self, outcome: Outcome) -> None:
        self.say(outcome.headline, "information" if outcome.ok else "error")

    def action_down(self) -> None:
        """An alert down."""
        self.query_one("#alert-table", KeyedTable).action_cursor_down()

    def action_up(self) -> None:
        """An alert up."""
        self.query_one("#alert-table", KeyedTable).action_cursor_up()


def _sorted(view: View) -> list[Alert]:
    return sorted(view.alerts, key=lambda alert: (bool(alert.acked_by), -alert.level.rank, alert.since))


def _alert_row(alert: Alert, view: View) -> Row:
    tone = DIM if alert.acked_by else LEVEL_TONES[alert.level]
    mark = "✓" if alert.acked_by else "·" if alert.level is Level.NOTE else "▲"
    since = text.moment(alert.since, view.container_now)
    return Row(
        alert.key,
        {
            "level": Text(f"{mark} {alert.level.value}", tone),
            "since": Text(since, DIM),
            "sentence": Text(clean(alert.sentence, 400), DIM if alert.acked_by else ""),
            "seen": Text(clean(alert.acked_by, 40), DIM),
        },
    )


def audit_lines(entries: Sequence[AuditEntry], view: View) -> list[Text]:
    """`03:12  restart  ana@laptop  done  …`, a line an entry, in columns as wide as what stands in them."""
    who = max((cell_len(entry.who or UNKNOWN) for entry in entries), default=0)
    outcome = max((cell_len(entry.outcome or "") for entry in entries), default=0)
    lines = []
    for entry in entries:
        tone = LOOK if entry.outcome and entry.outcome not in WELL else GOOD
        out = Text(no_wrap=True)
        out.append(f"{text.moment(entry.at, view.container_now):<13}", DIM)
        out.append(f" {entry.action:<10} ", STRONG)
        out.append(f"{text.fit(entry.who or UNKNOWN, min(who, MOST_CELLS))}  ")
        out.append(f"{text.fit(entry.outcome or '', min(outcome, MOST_CELLS))}  ", tone)
        lines.append(out.append(entry.detail or "", DIM))
    return lines
