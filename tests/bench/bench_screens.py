"""First paint, idle CPU, CPU at two updates a second, in a real process on a real pty.

DESIGN §11: first paint ≤ 0.4 s from exec, idle ≤ 0.5 % of a CPU, two updates a second ≤ 5 %.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Sequence

from tests.support.terminal import Terminal

STARTS = 5
WATCH_S = 10.0
TARGETS = {"first paint, s": 0.4, "idle, % of a CPU": 0.5, "2 updates/s, % of a CPU": 5.0}


def cpu_s(pid: int) -> float:
    """CPU time of a process so far, in seconds (/proc/PID/stat, fields 14 and 15)."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


COMMAND = ("-c", "from console.cli import main; main()", "gpu-07.invalid")
BARE = ("-m", "tests.bench.screen_process", "bare")


def first_paint(words: Sequence[str]) -> float:
    """CPU seconds until the screen has its first text, by the process's own clock."""
    terminal = Terminal([sys.executable, *words], environment={"XDG_CONFIG_HOME": "/nonexistent"})
    try:
        terminal.until(lambda: "eagle3-console" in terminal.text)
        return cpu_s(terminal.process.pid)
    finally:
        terminal.close()


def first_paints() -> tuple[float, float]:
    """Our own first paint and that of an empty Textual app: medians of some starts, in turns, for the load may change."""
    ours, bare = zip(*((first_paint(COMMAND), first_paint(BARE)) for _ in range(STARTS)), strict=True)
    return statistics.median(ours), statistics.median(bare)


def share(mode: str) -> float:
    """CPU used while it is looked at for some seconds, in percent."""
    terminal = Terminal([sys.executable, "-m", "tests.bench.screen_process", mode])
    try:
        terminal.until(lambda: "B8" in terminal.text)
        end = time.monotonic() + 3
        while time.monotonic() < end:
            terminal.read(0.2)
        before, began = cpu_s(terminal.process.pid), time.monotonic()
        while time.monotonic() < began + WATCH_S:
            terminal.read(0.2)
        return 100 * (cpu_s(terminal.process.pid) - before) / (time.monotonic() - began)
    finally:
        terminal.close()


def main() -> int:
    """Measure and print beside the targets; 1 when one is missed."""
    ours, bare = first_paints()
    found = dict(zip(TARGETS, (ours, share("idle"), share("busy")), strict=True))
    for name, value in found.items():
        print(f"{name:28}{value:8.2f}   target ≤ {TARGETS[name]}{'' if value <= TARGETS[name] else '   MISSED'}")
    print(f"{'an empty Textual app, s':28}{bare:8.2f}   first paint is {ours / bare:.2f} of it")
    return int(any(value > TARGETS[name] for name, value in found.items()))


if __name__ == "__main__":
    raise SystemExit(main())
