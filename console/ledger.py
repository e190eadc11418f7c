"""What one address has been told of one container, and what it is still to be told. Pure, with the clock passed in.

Telling is decided by state, not by events: what holds now is compared with what was told. So
nothing is told twice, nothing is lost while an address is down, and what began and ended in the
meantime is not told at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from console.alerts import EventKind
from console.view import Alert, Level, View

INHERITED_GRACE_S = 330.0
"""How long a restarted watch waits before it believes that what was told before is over: the slowest
alert needs 300 s (`gpu_idle_s`) to be raised again, and is not to be told as over and anew."""


@dataclass(frozen=True)
class Told:
    """One alert as it was told last. `since` is on the container's clock."""

    level: Level
    since: float
    sentence: str


@dataclass(frozen=True)
class Due:
    """One thing to tell now. `told` is what the address knows once it has been told; None: that it is over."""

    kind: EventKind
    key: str
    sentence: str
    level: Level
    since: float
    told: Told | None

    def ident(self, place: str) -> str:
        """The same however often it is sent and by whichever watch; `place` says which container and root."""
        parts = (place, self.key, self.kind.value, self.level.value, f"{self.since:.0f}")
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


class Ledger:
    """What one address was told; `inherited` is what an earlier watch told it."""

    def __init__(self, inherited: Mapping[str, Told] | None = None) -> None:
        self.told: dict[str, Told] = dict(inherited or {})
        self._inherited = set(self.told)
        self._fresh_since_s: float | None = None

    def due(self, view: View, now_s: float) -> list[Due]:
        """What is to be told, the loudest first, what is over last. Notes are no news, nor is what somebody has acknowledged."""
        present = {alert.key: alert for alert in view.alerts}
        self._inherited &= self.told.keys() - present.keys()
        found = [due for alert in view.alerts if (due := self._begun(alert)) is not None]
        if view.link.fresh and view.snapshot is not None and not view.snapshot.pending:
            if self._fresh_since_s is None:
                self._fresh_since_s = now_s
            settled = now_s - self._fresh_since_s >= INHERITED_GRACE_S
            for key, told in self.told.items():
                if key not in present and (settled or key not in self._inherited):
                    found.append(Due(EventKind.RECOVERED, key, told.sentence, told.level, told.since, None))
        return found

    def _begun(self, alert: Alert) -> Due | None:
        if alert.acked_by or alert.level is Level.NOTE:
            return None
        known = self.told.get(alert.key)
        if known is not None and alert.level.rank <= known.level.rank:
            return None
        kind = EventKind.RAISED if known is None else EventKind.WORSE
        words = f"{alert.sentence}; {alert.next_step}" if alert.next_step else alert.sentence
        since = alert.since if known is None else known.since
        return Due(kind, alert.key, words, alert.level, since, Told(alert.level, since, alert.sentence))

    def mark(self, due: Due) -> None:
        """It has been told."""
        if due.told is None:
            self.told.pop(due.key, None)
        else:
            self.told[due.key] = due.told
        self._inherited.discard(due.key)

    def to_json(self) -> dict[str, Any]:
        """The ledger as it is kept; `read_told` is its inverse."""
        rows = {
            key: {"level": told.level.value, "since": told.since, "sentence": told.sentence}
            for key, told in self.told.items()
        }
        return {"version": 1, "told": rows}


def read_told(value: Any) -> dict[str, Told]:
    """What `to_json` wrote. Raises ValueError for anything else."""
    if not isinstance(value, dict) or value.get("version") != 1 or not isinstance(value.get("told"), dict):
        raise ValueError("not a ledger")
    told: dict[str, Told] = {}
    for key, row in value["told"].items():
        if not isinstance(row, dict) or not isinstance(row.get("since"), (int, float)):
            raise ValueError("not a ledger")
        told[key] = Told(Level(str(row.get("level"))), float(row["since"]), str(row.get("sentence", "")))
    return told
