"""Sends the snapshot: whole at first, then only what changed, and a tick when nothing did."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from remote import protocol
from remote.mergepatch import diff, without_nulls
from remote.outbox import Outbox
from remote.text import clean

LEAST_GAP_S = 0.5
"""At most two updates a second."""

TICK_S = 1.0
FIRST_GRACE_S = 1.0
"""The first snapshot waits this long for the quick parts at most, so that a screen does not begin with blanks."""


class Publisher:
    """Calls `make` for the present snapshot whenever there is news, and sends the difference.

    The first one waits until it is `presentable`; when it is sent, `after_first` runs once in a thread of its own.

    Nothing is sent while the pipe is still full of what was sent before: a slow link gets fewer
    and larger steps instead of a growing queue.
    """

    def __init__(
        self,
        outbox: Outbox,
        make: Callable[[], dict[str, Any]],
        presentable: Callable[[], bool],
        after_first: Callable[[], None] = lambda: None,
    ) -> None:
        self._outbox = outbox
        self._make = make
        self._presentable = presentable
        self._after_first = after_first
        self._news = threading.Event()
        self._whole = True
        self._stopped = False
        self._seq = 0
        self._spoke_s = 0.0
        self._sent: dict[str, Any] = {}
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to publish; a second call sends the whole snapshot again."""
        self.resync()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
            self._thread.start()

    def resync(self) -> None:
        """Send the whole snapshot next: the other end has lost its place."""
        self._whole = True
        self._news.set()

    def news(self) -> None:
        """Something may have changed; from any thread."""
        self._news.set()

    def stop(self) -> None:
        """Send no more."""
        self._stopped = True
        self._news.set()

    def _run(self) -> None:
        begin_s = time.monotonic()
        while not self._stopped and not self._presentable() and time.monotonic() - begin_s < FIRST_GRACE_S:
            self._news.wait(0.1)
            self._news.clear()
        if not self._stopped:
            self._step()
            threading.Thread(target=self._after_first, name="after-first", daemon=True).start()
        while not self._stopped:
            if self._outbox.idle:
                self._step()
            time.sleep(LEAST_GAP_S)
            self._news.wait(TICK_S - LEAST_GAP_S)
            self._news.clear()

    def _step(self) -> None:
        now = time.time()
        made = self._present()
        if self._whole:
            self._whole = False
            self._seq += 1
            self._send(protocol.snapshot(self._seq, now, made))
            self._sent = made
            return
        changes = diff(self._sent, made)
        if changes:
            self._seq += 1
            self._send(protocol.patch(self._seq, now, changes))
            self._sent = made
        elif time.monotonic() - self._spoke_s >= TICK_S:
            self._send(protocol.tick(now))

    def _present(self) -> dict[str, Any]:
        try:
            made: dict[str, Any] = without_nulls(self._make())
        except Exception as error:
            # A fault of ours in one part of the snapshot: what was sent still stands, and this is told with it.
            told = f"the snapshot could not be made ({type(error).__name__}: {clean(error, 200)})"
            return {**self._sent, "problems": [told]}
        return made

    def _send(self, line: bytes) -> None:
        self._spoke_s = time.monotonic()
        self._outbox.send(line)
