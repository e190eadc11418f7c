"""Tells one address of a container's alerts, in a thread of its own: an address that stalls delays nobody else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from console.alerts import EventKind
from console.clock import steady_s
from console.ledger import Due, Ledger
from console.told_file import ToldFile
from console.view import View
from remote.masking import masked_hook
from remote.notify import TIMEOUT_S, Notice, post, shape_of

AGAIN_S = 30.0
"""After a post that failed with all its tries."""
STANDBY_S = 10.0
CLOSE_DEADLINE_S = 2.0


@dataclass(frozen=True)
class Place:
    """Which container: the name that an operator knows it by, its address, and the datasets' root."""

    name: str
    address: str
    root: str

    def __str__(self) -> str:
        return f"{self.address} {self.root}"


class Postman:
    """`look(view)` says what is so now, as often as one likes; the thread tells what is new.

    `say` gets one line for whoever reads the watch's stderr: a failure, once until it is mended.
    """

    def __init__(
        self,
        address: str,
        place: Place,
        kept: ToldFile,
        say: Callable[[str], None],
        *,
        again_s: float = AGAIN_S,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._address = address
        self._place = place
        self._kept = kept
        self._say = say
        self._again_s = again_s
        self._timeout_s = timeout_s
        self._shown = masked_hook(shape_of(address)[1])
        self._changed = threading.Condition()
        self._view: View | None = None
        self._closing = threading.Event()
        self._failing = False
        self._thread = threading.Thread(target=self._serve, name="postman", daemon=True)

    def start(self) -> None:
        """Begin. Raises OperatorError when it could not remember what it posts."""
        if not self._kept.take():
            self._say(f"another watch posts to {self._shown}; this one takes over when that ends")
        self._thread.start()

    def look(self, view: View) -> None:
        """The latest view; returns at once."""
        with self._changed:
            self._view = view
            self._changed.notify()

    def close(self) -> None:
        """End; a post that is on its way is left to itself after two seconds."""
        self._closing.set()
        with self._changed:
            self._changed.notify()
        self._thread.join(CLOSE_DEADLINE_S)

    def _serve(self) -> None:
        try:
            while not self._kept.take():
                if self._closing.wait(STANDBY_S):
                    return
            ledger = self._open_ledger()
            while (view := self._next()) is not None:
                if not all(self._tell(due, view, ledger) for due in ledger.due(view, steady_s())):
                    self._closing.wait(self._again_s)
        finally:
            self._kept.release()

    def _next(self) -> View | None:
        """The latest view, once there is one that was not looked at; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._view is not None or self._closing.is_set())
            view, self._view = self._view, None
            return None if self._closing.is_set() else view

    def _open_ledger(self) -> Ledger:
        try:
            return Ledger(self._kept.read())
        except (OSError, ValueError):
            self._say("what was posted before cannot be read; what holds now is posted anew")
            return Ledger()

    def _tell(self, due: Due, view: View, ledger: Ledger) -> bool:
        text = f"over: {due.sentence}" if due.kind is EventKind.RECOVERED else due.sentence
        run = view.snapshot.generator.run_id if view.snapshot is not None else None
        notice = Notice(
            due.kind.value,
            text,
            self._place.name,
            self._place.root,
            run or "",
            time.time(),
            due.level.value,
            due.key,
            due.ident(str(self._place)),
        )
        failures = post((self._address,), notice, self._timeout_s, self._closing.wait)
        if failures:
            if not self._failing:
                self._say(f"{failures[0]}; it is tried again until it arrives")
            self._failing = True
            return False
        if self._failing:
            self._say(f"{self._shown} takes posts again")
        self._failing = False
        ledger.mark(due)
        try:
            self._kept.write(ledger)
        except OSError as error:
            self._say(f"what was posted cannot be remembered ({error.strerror}); a restarted watch will post it again")
        return True
