"""The supervisor's slow side: the minute's history line, the stall, the posts. In a thread of its own,
so that a hung nvidia-smi or a dead webhook never delays a stop."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from remote.gpus import gpus
from remote.history import append_history, history_row
from remote.layout import Layout
from remote.notify import Notice, post
from remote.runfile import Run, number, read_progress

EVERY_S = 60.0
STALL_S = 15 * 60.0
"""No new answer for this long while running and not paused is a stall worth waking somebody for."""


@dataclass
class Stall:
    """Whether the run stands still, from its own counts; the clock is the caller's."""

    limit_s: float = STALL_S
    stalled: bool = False
    _answers: float | None = None
    _since: float | None = None

    def look(self, now: float, progress: Mapping[str, Any]) -> str | None:
        """`stalled` or `recovered` when that just began, else None."""
        answers = number(progress.get("answers"))
        if answers is None or progress.get("paused") is True:
            # Unknown, or standing still on purpose: neither begins nor ends a stall.
            self._since = now
            return None
        if self._answers is None or answers != self._answers:
            self._answers, self._since = answers, now
            if self.stalled:
                self.stalled = False
                return "recovered"
            return None
        if self._since is None:
            self._since = now
        if not self.stalled and now - self._since >= self.limit_s:
            self.stalled = True
            return "stalled"
        return None


class Chronicle:
    """History and posts of one run."""

    def __init__(self, layout: Layout, run: Run, notify: Sequence[str], log: Callable[[str], None]) -> None:
        self._layout = layout
        self._run = run
        self._notify = tuple(notify)
        self._log = log
        self._stop = threading.Event()
        self._ready = threading.Event()
        self.stall = Stall()

    def start(self) -> None:
        """Begin; returns at once."""
        threading.Thread(target=self._serve, name="chronicle", daemon=True).start()

    def ready(self) -> None:
        """The generator said that it is ready: only now was anything started."""
        self._ready.set()

    def stop(self) -> None:
        """No further line; a post in progress is left to itself."""
        self._stop.set()
        self._ready.set()

    def ended(self, how: str) -> None:
        """Post the end. Waits for it, since this process ends afterwards; bounded by the posts' own limits."""
        self._post("ended", how)

    def _serve(self) -> None:
        self._ready.wait()
        if self._stop.is_set():
            return
        self._post("started", f"run {self._run.run_id} was started by {self._run.by or 'somebody'}")
        while not self._stop.wait(EVERY_S):
            self._look()

    def _look(self) -> None:
        progress = read_progress(self._layout, self._run.run_id)
        try:
            append_history(self._layout, history_row(time.time(), self._run.run_id, progress, gpus()))
        except OSError as error:
            self._log(f"cannot write {self._layout.history_jsonl}: {error.strerror}")
        happened = self.stall.look(time.monotonic(), progress)
        if happened == "stalled":
            engine = progress.get("engine_state") or "unknown"
            self._post("stalled", f"no new answer for {self.stall.limit_s / 60:.0f} minutes; engine: {engine}")
        elif happened == "recovered":
            self._post("recovered", "answers arrive again")

    def _post(self, event: str, text: str) -> None:
        if not self._notify:
            return
        notice = Notice(event, text, socket.gethostname(), str(self._layout.root), self._run.run_id, time.time())
        for failure in post(self._notify, notice):
            self._log(failure)
