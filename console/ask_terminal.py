"""Asks whoever sits at the terminal for a secret, without echo and without a thread that nobody could end.

`getpass` in a thread would hold the process at its end, until somebody pressed Enter.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from remote.text import clean

_LONGEST_BYTES = 4096
"""What a terminal passes on as one line."""


def can_ask() -> bool:
    """Whether there is a terminal to ask on."""
    return sys.stdin.isatty() and sys.stderr.isatty()


async def ask_on_terminal(kind: str, what: str) -> str | None:
    """One line typed on standard input, which is a terminal; None when it was left empty or ended.

    The question goes to standard error. The echo comes back however this ends: answered, cancelled, or by a signal.
    """
    fd = sys.stdin.fileno()
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    before = termios.tcgetattr(fd)
    hidden = [*before]
    hidden[3] &= ~termios.ECHO

    def show_again() -> None:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)

    with _before_an_end_by_signal(show_again):
        try:
            # Before the question is there: what is typed at once must not be seen, what was typed before is no answer.
            termios.tcsetattr(fd, termios.TCSAFLUSH, hidden)
            print(f"{clean(kind, 60)} for {clean(what, 300)}: ", end="", file=sys.stderr, flush=True)
            loop.add_reader(fd, ready.set)
            await ready.wait()
            line = os.read(fd, _LONGEST_BYTES)
        finally:
            loop.remove_reader(fd)
            show_again()
            print(file=sys.stderr, flush=True)
    return line.rstrip(b"\r\n").decode("utf-8", "replace") or None


@contextmanager
def _before_an_end_by_signal(act: Callable[[], None]) -> Iterator[None]:
    """Call `act` before a signal ends the process where nobody handles it; those that are handled come by `finally`."""

    def end(number: int, frame: object) -> None:
        act()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    ours = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
