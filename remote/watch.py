"""One look at one part of the container, repeated in a thread of its own, so that a hung one stalls nothing else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from remote.errors import OperatorError
from remote.text import clean

T = TypeVar("T")


STEP_S = 10.0


class Watch(Generic[T]):
    """Calls `look` every `every_s` seconds and keeps what it returned last.

    A look that raises leaves None and one sentence in `problem()`; one that takes longer than
    `limit_s` leaves what was known and a sentence that says so. `on_news` is called after each
    look, from this thread. The thread is a daemon: one that hangs in the kernel is left behind.
    """

    def __init__(
        self, name: str, look: Callable[[], T], every_s: float, limit_s: float, on_news: Callable[[], None]
    ) -> None:
        self.name = name
        self.value: T | None = None
        self.at: float | None = None
        """Unix time of the last look's end."""
        self._look = look
        self._every_s = every_s
        self._limit_s = limit_s
        self._on_news = on_news
        self.error: OperatorError | None = None
        """What the last look raised, when it was an expected failure."""
        self._trouble = ""
        self._began_s: float | None = None
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=f"watch-{name}", daemon=True)

    def start(self) -> None:
        """Take the first look at once."""
        self._thread.start()

    def nudge(self) -> None:
        """Look again now instead of at the next turn."""
        self._wake.set()

    def stop(self) -> None:
        """Look no more; returns at once, and a look under way is not waited for."""
        self._stopped = True
        self._wake.set()

    def wait_ended(self, timeout_s: float) -> bool:
        """Whether the thread has ended within `timeout_s` after `stop`."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def problem(self) -> str:
        """What keeps this part unknown or old, in one sentence; empty when all is well."""
        began_s = self._began_s
        if began_s is not None:
            took_s = time.monotonic() - began_s
            if took_s > self._limit_s:
                # In steps: a sentence that changes with every second would be sent every second.
                return f"{self.name}: not answered for {took_s // STEP_S * STEP_S:.0f} s"
        return self._trouble

    def _run(self) -> None:
        while not self._stopped:
            self._wake.clear()
            self._began_s = time.monotonic()
            expected: OperatorError | None = None
            try:
                value, trouble = self._look(), ""
            except OperatorError as error:
                value, trouble, expected = None, f"{self.name}: {clean(error.message, 300)}", error
            except Exception as error:
                # Whatever one part does must not take the others with it; it is told, not swallowed.
                value, trouble = None, f"{self.name}: {type(error).__name__}: {clean(error, 300)}"
            self.error = expected
            self.value, self._trouble, self._began_s, self.at = value, trouble, None, time.time()
            self._on_news()
            self._wake.wait(self._every_s)
