"""`status` as lines of text: the same figures and words as the main screen, without a screen."""

from __future__ import annotations

from rich.text import Text

from console import present_table
from console.present_engine import engine_line, gpu_summary, has_work, load_line
from console.present_process import process_lines
from console.present_table import Width
from console.present_top import alert_block, top_line
from console.status_json import check_status
from console.view import Level, View
from remote.exitcodes import CheckCode
from widgets.columns import fitted, foot_line
from widgets.tones import DIM


def status_lines(view: View, columns: int) -> list[Text]:
    """The whole look: where, what runs, the engine, the table, the alerts. Lines are not cut: a pipe has room."""
    width = present_table.width_of(max(columns, 80))
    lines = [top_line(view, max(columns, 80), width), *process_lines(view, 6)]
    snapshot = view.snapshot
    if snapshot is None:
        return lines
    lines.append(
        Text("  ").join(
            [
                engine_line(snapshot.engine),
                load_line(snapshot.engine),
                Text("GPU ").append_text(gpu_summary(snapshot.gpus.rows, has_work(snapshot))),
            ]
        )
    )
    lines.append(Text())
    lines += _table(view, width)
    lines.append(Text())
    for alert in view.alerts:
        lines += alert_block(alert, view, max(columns, 80))
    lines += [Text(f"cannot be read: {problem}", DIM) for problem in (*snapshot.problems, *snapshot.misread)]
    return lines


def check_line(view: View) -> str:
    """The one line of `status --check`, as monitoring plugins print it: how it is, and the worst reason."""
    code = check_status(view)
    if code is CheckCode.UNKNOWN:
        return f"{code.name}: {view.link.error or 'the datasets cannot be read'}"
    open_ones = [alert for alert in view.alerts if not alert.acked_by and alert.level is not Level.NOTE]
    if not open_ones:
        return f"{code.name}: {process_lines(view, 1)[0].plain.strip()}"
    more = f" (and {len(open_ones) - 1} more)" if len(open_ones) > 1 else ""
    step = f"; {open_ones[0].next_step}" if open_ones[0].next_step else ""
    return f"{code.name}: {open_ones[0].sentence}{step}{more}"


def _table(view: View, width: Width) -> list[Text]:
    columns = present_table.columns(width, view.options.token_budget)
    head = Text("  ").join(fitted(Text(column.label, DIM), column) for column in columns)
    rows = [
        Text("  ").join(fitted(row.cells.get(column.id, Text()), column) for column in columns)
        for row in present_table.rows(view, columns)
    ]
    return [head, *rows, foot_line(columns, present_table.foot(view, columns))]
