"""Requests that change something and are still at work when the console is gone: the agent lives on until they are done."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Unfinished:
    """Counts what is at work; callable from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._idle = threading.Event()
        self._idle.set()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Something is at work as long as this is open."""
        with self._lock:
            self._count += 1
            self._idle.clear()
        try:
            yield
        finally:
            with self._lock:
                self._count -= 1
                if not self._count:
                    self._idle.set()

    def wait(self, limit_s: float) -> bool:
        """Return once nothing is at work any more, or after `limit_s` seconds; whether nothing is."""
        return self._idle.wait(limit_s)
