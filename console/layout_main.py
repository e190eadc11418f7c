"""How the lines of the main screen are shared out. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from console.present_table import Width


@dataclass(frozen=True)
class MainLayout:
    """How many lines each part gets; 0 is not shown. The log takes what is left."""

    process: int
    framed: bool
    engine: bool
    table: int
    foot: bool
    alerts: int
    log_title: bool


def main_layout(width: Width, lines: int, datasets: int, key_lines: int, alerts_wanted: int = 1) -> MainLayout:
    """Share out `lines`. The table with all its rows comes first, then one line of process and alert each."""
    left = lines - 1 - key_lines
    table = min(datasets + 1, max(2, left - 1))
    left -= table

    def take(wanted: int) -> int:
        nonlocal left
        got = max(0, min(wanted, left))
        left -= got
        return got

    alerts = take(1)
    process = take(1)
    process += take(2)
    foot = take(1) == 1
    framed = width is Width.WIDE and left >= 3
    if framed:
        take(2)
        process += take(1)
    # Alerts may take a third of what is left; the log has the rest.
    alerts += take(min(max(0, alerts_wanted - 1), max(2, left // 2)))
    return MainLayout(process, framed, framed, table, foot, alerts, left >= 2)
