"""How a run is asked to end: the first SIGTERM or SIGINT drains, a second one stops now; `stop.json` says it finer."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from remote.layout import Layout
from remote.runfile import number, read_stop

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopRequest:
    """What was asked. `changed` is called at every signal, from the event loop."""

    def __init__(self, layout: Layout, run_id: str, drain_s: float, changed: Callable[[], None]) -> None:
        self._layout = layout
        self._run_id = run_id
        self._drain_s = drain_s
        self._changed = changed
        self.asked = False
        self.now = False
        """Whether what is in flight is to be cancelled at once."""
        self.drain_until = float("inf")
        self.drain_s = drain_s
        self.by = ""

    def listen(self) -> None:
        """Take the signals of this process. Call inside the event loop."""
        loop = asyncio.get_running_loop()
        for each in SIGNALS:
            loop.add_signal_handler(each, self.signalled)

    def deaf(self) -> None:
        """Give the signals back."""
        loop = asyncio.get_running_loop()
        for each in SIGNALS:
            loop.remove_signal_handler(each)

    def signalled(self) -> None:
        """A signal came."""
        stop = read_stop(self._layout, self._run_id) or {}
        mode, drain_s = stop.get("mode"), number(stop.get("drain_s"))
        self.by = str(stop.get("by") or self.by)
        if self.asked or mode in ("now", "force"):
            self.now = True
        else:
            self.drain_s = self._drain_s if drain_s is None else max(0.0, drain_s)
            self.drain_until = asyncio.get_running_loop().time() + self.drain_s
        self.asked = True
        self._changed()
