"""The agent's notifications put together into the latest snapshot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from console.model import Snapshot
from console.read_snapshot import read_snapshot
from remote.mergepatch import apply
from remote.protocol import Notification

_END_OF_TIME_S = 1e11
"""The year 5138: what lies beyond is no moment of ours, and no calendar would take much more."""


def is_time(value: object) -> bool:
    """Whether this is a moment, in seconds since 1970, that can be shown: no bool, NaN or infinity, no date beyond all dates."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < _END_OF_TIME_S


class OutOfStep(Exception):
    """What came does not follow what we hold, or means nothing: the whole snapshot must be asked for."""


class Feed:
    """Holds the raw snapshot and the value made of it. `seen` counts what has been taken in."""

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = None
        self.seen = 0
        self.asked_again = False
        self._raw: dict[str, Any] | None = None

    def lost(self) -> None:
        """A new agent speaks now: its patches do not follow the old one's. The last snapshot is kept to look at."""
        self._raw = None
        self.asked_again = False

    def take(self, message: Notification) -> Snapshot | None:
        """The snapshot after this notification, or None when it tells nothing new of it.

        Raises OutOfStep when a patch is missing or anything but a patch; values inside a
        snapshot are read leniently instead.
        """
        match message.method, message.params:
            case "tick", [at] if is_time(at):
                return self._at(float(at))
            case "snapshot", [int() as seq, at, dict() as whole] if is_time(at):
                self.asked_again = False
                return self._hold(seq, float(at), whole)
            case "patch", [int() as seq, at, dict() as changes] if is_time(at):
                if self._raw is None or seq != self._raw.get("seq", 0) + 1:
                    raise OutOfStep
                return self._hold(seq, float(at), apply(self._raw, changes))
            case (("tick" | "snapshot" | "patch"), _):
                raise OutOfStep
        return None

    def _at(self, at: float) -> Snapshot | None:
        if self._raw is None or self.snapshot is None:
            return None
        self.seen += 1
        self.snapshot = replace(self.snapshot, at=at)
        return self.snapshot

    def _hold(self, seq: int, at: float, raw: dict[str, Any]) -> Snapshot:
        before = (self._raw, self.snapshot) if self._raw is not None and self.snapshot is not None else None
        self._raw = {**raw, "seq": seq, "at": at}
        self.seen += 1
        self.snapshot = read_snapshot(self._raw, before)
        return self.snapshot
