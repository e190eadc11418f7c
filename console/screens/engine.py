"""Engine and GPUs, now and through the night."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.binding import BindingType

from console import text
from console.desk import Desk
from console.model import Engine
from console.present_engine import engine_line, gpu_bar_lines, gpu_summary, has_work, load_line, model_name
from console.present_history import EMPTY_HISTORY, History, history_of
from console.screens.scrolled import PageScreen
from console.view import View
from remote.layout import dataset_title
from widgets.bars import sparkline
from widgets.tones import CURVE, DIM, LOOK, STRONG, UNKNOWN

HISTORY_HOURS = 12
REFRESH_HISTORY_S = 60.0


class EngineScreen(PageScreen):
    """The engine's facts, a line a GPU, and the last hours of both."""

    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.history = EMPTY_HISTORY
        self.asked = False

    def on_mount(self) -> None:
        super().on_mount()
        self.load_history()
        self.set_interval(REFRESH_HISTORY_S, self.load_history)

    @work(name="history", group="history", exclusive=True, exit_on_error=False)
    async def load_history(self) -> None:
        """Ask for the minutes of the last hours."""
        if not self.desk.view.link.fresh:
            return
        until = self.desk.view.container_now
        rows = await self.desk.ask("history", {"since": until - HISTORY_HOURS * 3600.0})
        self.history = history_of(rows if isinstance(rows, list) else [], until, HISTORY_HOURS * 60)
        self.asked = True
        self.refresh_view()

    def lines(self, view: View) -> Sequence[Text]:
        snapshot = view.snapshot
        if snapshot is None:
            return [Text("nothing is known of the container yet", DIM)]
        width = self.page_width
        lines = [Text("engine", STRONG), *engine_facts(view, snapshot.engine), Text("")]
        work = has_work(snapshot)
        lines += [Text.assemble(("GPUs  ", STRONG), gpu_summary(snapshot.gpus.rows, work))]
        lines += gpu_bar_lines(snapshot.gpus.rows, self.history.gpus, width, work)
        if snapshot.gpus.detail:
            lines.append(Text(snapshot.gpus.detail, LOOK))
        lines += [Text(""), *history_lines(self.history, self.asked, width)]
        return lines


def engine_facts(view: View, engine: Engine) -> list[Text]:
    """Everything known of the engine."""
    since = f"up {text.duration(view.age_s(engine.since))}" if engine.since is not None else ""
    facts = [
        ("url", engine.url),
        ("model", engine.model_path or model_name(engine)),
        ("weights", engine.weight_version),
        ("context", f"{text.count(engine.context_length)} tokens" if engine.context_length else None),
        ("since", since or None),
    ]
    lines = [engine_line(engine), load_line(engine)]
    lines += [Text.assemble((f"{name:<9} ", DIM), value or UNKNOWN) for name, value in facts]
    return lines


def history_lines(history: History, asked: bool, width: int) -> list[Text]:
    """Tokens a second of the run and of each dataset, and requests in flight, as sparklines."""
    if not asked:
        return [Text("history  asking …", DIM)]
    if not history.minutes:
        return [Text(f"history  nothing was recorded in the last {HISTORY_HOURS} h: no run of ours", DIM)]
    hours = text.duration(history.minutes * 60.0)
    out = [Text.assemble(("history  ", STRONG), (f"{hours} up to now, a column a minute or more; · is a gap", DIM))]
    rows = [("all tok/s", history.total)]
    rows += [
        (f"{folder.split('_')[0]} {dataset_title(folder)}"[:20], series) for folder, series in history.rates.items()
    ]
    rows.append(("in flight", history.in_flight))
    for name, series in rows:
        known = [value for value in series if value is not None]
        top = f"{text.about(max(known))}" if known else UNKNOWN
        line = Text(f"{name:<21}", no_wrap=True)
        line.append(sparkline(series, max(10, width - 34)), CURVE)
        out.append(line.append(f"  max {top:>7}"))
    return out
