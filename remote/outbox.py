"""Lines on their way to the console: queued, written by one thread, never blocking whoever sends.

The other end may be frozen, or the link a black hole: the pipe fills, and a plain write would
hang for ever. The thread writes only while the pipe takes something, and gives up when it has
taken nothing for a minute.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable

CHUNK_BYTES = 4096
"""POSIX: a pipe that polls writable takes this much (PIPE_BUF) without blocking."""

PATIENCE_S = 60.0
MAX_QUEUED_BYTES = 64 << 20


class Outbox:
    """Writes to `fd` in a thread of its own; `on_dead` is called once when the other end is gone or takes nothing."""

    def __init__(self, fd: int, on_dead: Callable[[str], None], patience_s: float = PATIENCE_S) -> None:
        self._fd = fd
        self._on_dead = on_dead
        self._patience_s = patience_s
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._changed = threading.Condition()
        self._dead = False
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
        self._thread.start()

    @property
    def idle(self) -> bool:
        """Whether everything has been handed to the pipe: updates wait for this, so that they never pile up."""
        return not self._queued_bytes

    def send(self, line: bytes) -> None:
        """Queue one line. A line beyond 64 MiB of waiting ones means that nobody reads: the other end is dead."""
        with self._changed:
            if self._dead:
                return
            if self._queued_bytes + len(line) > MAX_QUEUED_BYTES:
                self._die("it reads nothing")
                return
            self._queue.append(line)
            self._queued_bytes += len(line)
            self._changed.notify()

    def finish(self, timeout_s: float) -> bool:
        """Write what is queued and end; returns whether all was written in time."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout_s)
        return self.idle and not self._dead

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._closing and not self._dead:
                    self._changed.wait()
                if self._dead or not self._queue:
                    return
                line = self._queue.popleft()
            try:
                self._write(line)
            except OSError as error:
                with self._changed:
                    self._die(error.strerror or str(error))
                return
            with self._changed:
                self._queued_bytes -= len(line)

    def _write(self, line: bytes) -> None:
        poller = select.poll()
        poller.register(self._fd, select.POLLOUT)
        view = memoryview(line)
        moved_s = time.monotonic()
        while view:
            if not poller.poll(1000):
                if time.monotonic() - moved_s > self._patience_s:
                    raise TimeoutError(f"it has taken nothing for {self._patience_s:g} s")
                continue
            view = view[os.write(self._fd, view[:CHUNK_BYTES]) :]
            moved_s = time.monotonic()

    def _die(self, why: str) -> None:
        if not self._dead:
            self._dead = True
            self._queue.clear()
            self._queued_bytes = 0
            self._changed.notify()
            self._on_dead(why)
