"""The other targets: their state, alerts and totals at a glance; switching waits for nobody."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual import on, work
from textual.binding import Binding, BindingType
from textual.widget import Widget

from console import keys, text
from console.keys import Key
from console.ports import TargetRow
from console.present_process import process_lines
from console.present_top import LEVEL_TONES, link_words
from console.screens.asking import AskText
from console.screens.base import ConsoleScreen
from console.view import Level, View
from remote.text import clean
from widgets.columns import Column, Row
from widgets.keyed_table import KeyedTable
from widgets.paragraph import Paragraph
from widgets.tones import ACT, DIM, LOOK, STRONG, UNKNOWN

if TYPE_CHECKING:
    from console.app import ConsoleApp

ROOMY = 100
MOST_ALERTS = 5


class TargetsScreen(ConsoleScreen):
    """Enter switches; `n` adds a target from a pasted address or ssh command."""

    KEYS: ClassVar[tuple[Key, ...]] = keys.TARGETS
    BINDINGS: ClassVar[list[BindingType]] = [
        *keys.bindings(*keys.TARGETS, *keys.MOVES[:2]),
        Binding("c", "back", show=False),
    ]
    AUTO_FOCUS: ClassVar[str | None] = "KeyedTable"

    def body(self) -> Iterable[Widget]:
        yield KeyedTable(id="targets")
        yield Paragraph(id="hint")

    def on_mount(self) -> None:
        super().on_mount()
        self.set_interval(1.0, self.refresh_view)
        self.open_all()

    @work(name="open-targets", group="targets", exclusive=True, exit_on_error=False)
    async def open_all(self) -> None:
        """Begin to connect to every target, so that the list is true."""
        targets = self.desk.targets
        if targets is not None:
            for row in targets.rows():
                await targets.open(row.name)
            self.refresh_view()

    def show(self, view: View) -> None:
        targets = self.desk.targets
        if targets is None:
            return
        width = self.app.size.width
        name, link = (18, 18) if width >= ROOMY else (12, 12)
        columns = (
            Column("name", "target", name),
            Column("link", "link", link),
            Column("alerts", "alerts", 15),
            Column("tokens", "tokens", 7, "right"),
            Column("what", "what runs there", max(16, width - name - link - 15 - 7 - 10)),
        )
        rows = [self._row(row) for row in targets.rows()]
        table = self.query_one("#targets", KeyedTable)
        table.show(columns, rows)
        table.styles.height = min(len(rows) + 1, max(3, self.app.size.height - 5))
        self._show_chosen()

    @on(KeyedTable.Highlighted)
    def _show_chosen(self) -> None:
        """The target under the cursor in full: the table has no room for its address, its trouble and the remedy."""
        targets, name = self.desk.targets, self.query_one("#targets", KeyedTable).row_key
        row = next((row for row in targets.rows() if row.name == name), None) if targets is not None else None
        lines = [Text("⏎ switches to the target under the cursor; the others go on", DIM)]
        if row is not None and targets is not None:
            controller = targets.controller(row.name)
            lines += [Text(""), Text.assemble((row.name, STRONG), f"  {clean(row.address, 200)}")]
            link = controller.view.link if controller is not None else None
            lines += [Text(clean(words, 300), ACT) for words in (link.error,) if words] if link is not None else []
            lines += [Text(f"→ {clean(link.remedy, 300)}", DIM)] if link is not None and link.remedy else []
            lines += _alert_lines(controller.view) if controller is not None and link is not None and link.fresh else []
        self.query_one("#hint", Paragraph).say(Text("\n").join(lines))

    def _row(self, target: TargetRow) -> Row:
        targets = self.desk.targets
        controller = targets.controller(target.name) if targets is not None else None
        here = targets is not None and targets.current == target.name
        name = Text(f"{'▸' if here else ' '} {clean(target.name, 40)}", STRONG if here else "")
        if target.read_only:
            name.append(" ro", LOOK)
        if controller is None:
            return Row(target.name, {"name": name, "link": Text("not open", DIM), "what": Text(target.address, DIM)})
        view = controller.view
        what = process_lines(view, 1) if view.snapshot is not None else [Text(view.link.error or view.link.stage, DIM)]
        share = text.percent(view.totals.tokens, view.totals.budget)
        return Row(
            target.name,
            {
                "name": name,
                "link": link_words(view),
                "alerts": _alert_word(view),
                "tokens": Text(share, DIM if share == UNKNOWN else ""),
                "what": what[0],
            },
        )

    @on(KeyedTable.Selected)
    def _selected(self, event: KeyedTable.Selected) -> None:
        event.stop()
        self.action_switch()

    def action_switch(self) -> None:
        """Show the target under the cursor."""
        name = self.query_one("#targets", KeyedTable).row_key
        if name is not None:
            cast("ConsoleApp", self.app).switch_target(name)

    @work(name="add-target", group="asking", exclusive=True, exit_on_error=False)
    async def action_add(self) -> None:
        """Add a target."""
        targets = self.desk.targets
        asked = "an address, an alias of ~/.ssh/config, or a whole ssh command as your provider shows it"
        words = await self.app.push_screen_wait(AskText("new target", asked, placeholder="ssh root@1.2.3.4 -p 22001"))
        if words and targets is not None:
            name = await targets.add(words)
            self.say(f"saved as {name}")
            await targets.open(name)
            self.refresh_view()

    def action_down(self) -> None:
        """A target down."""
        self.query_one("#targets", KeyedTable).action_cursor_down()

    def action_up(self) -> None:
        """A target up."""
        self.query_one("#targets", KeyedTable).action_cursor_up()


def _alert_lines(view: View) -> list[Text]:
    return [
        Text.assemble(
            (f"{'·' if alert.level is Level.NOTE else '▲'} ", LEVEL_TONES[alert.level]), clean(alert.sentence, 300)
        )
        for alert in sorted(view.alerts, key=lambda alert: -alert.level.rank)
        if not alert.acked_by
    ][:MOST_ALERTS]


def _alert_word(view: View) -> Text:
    open_ones = [alert for alert in view.alerts if not alert.acked_by]
    worst = view.worst
    if worst is None:
        return Text("none" if view.snapshot is not None else UNKNOWN, DIM)
    loudest = sum(alert.level is worst for alert in open_ones)
    mark = "·" if worst is Level.NOTE else "▲"
    out = Text(f"{mark} {loudest} {worst.value}", LEVEL_TONES[worst])
    return out.append(f" +{len(open_ones) - loudest}", DIM) if len(open_ones) > loudest else out
