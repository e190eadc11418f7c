"""Leaving in good order: signals, a terminal that is gone, and the last line that says what runs on."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import threading
from collections.abc import Callable

from console.text import duration
from console.view import View
from remote.text import clean

SIGNALS = (signal.SIGTERM, signal.SIGHUP)
GONE_EXIT_CODE = 128 + signal.SIGHUP
LAST_RESORT_S = 1.5
"""When leaving takes longer than this after a signal, the process ends without further ado."""


OLD_S = 6.0
"""From this age on what is said of the container says when it was seen."""


def on_signals(leave: Callable[[int], None]) -> None:
    """Have SIGTERM and SIGHUP call `leave(128 + number)` in the running loop."""
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        # Under nohup SIGHUP is ignored on purpose; the watch on the terminal covers its loss.
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, leave, 128 + number)


def terminal_gone() -> bool:
    """Whether the terminal hung up: its other end is closed."""
    try:
        fd = sys.__stdin__.fileno() if sys.__stdin__ is not None else -1
    except (ValueError, OSError):
        return False
    if fd < 0:
        return False
    poll = select.poll()
    poll.register(fd, select.POLLHUP | select.POLLERR)
    return any(event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, event in poll.poll(0))


def last_resort(code: int) -> None:
    """End the process after `LAST_RESORT_S` whatever else happens: a dead terminal can block every write."""
    timer = threading.Timer(LAST_RESORT_S, os._exit, (code,))
    timer.daemon = True
    timer.start()


def last_line(view: View) -> str:
    """What the operator reads after leaving: what runs there, with its pid, and that it runs on."""
    snapshot = view.snapshot
    target = clean(view.link.target, 80) or "the container"
    if snapshot is None:
        return f"eagle3-console left; {target} was not seen, nothing there was touched."
    pids = [f"pid {snapshot.generator.pid}"] if snapshot.generator.running else []
    pids += [f"pid {writer.pid} (not ours)" for writer in snapshot.writers]
    old = view.link.age_s is not None and view.link.age_s >= OLD_S
    age = f", seen {duration(view.link.age_s)} before leaving" if old else ""
    if not pids:
        return f"eagle3-console left; nothing was running on {target}{age}."
    verb = "runs" if len(pids) == 1 else "run"
    return f"eagle3-console left; on {target} {', '.join(pids)} {verb} on{age}."
