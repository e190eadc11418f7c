"""What a stop came to, as one value: for the operator, the wire and the audit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from remote import audit
from remote.identity import Identity
from remote.layout import Layout
from remote.members import Left
from remote.runfile import number


@dataclass(frozen=True)
class Stopped:
    """What a stop came to. `left` empty is success; `took_s` in seconds; `lost_tokens` None where nobody can tell."""

    left: tuple[Left, ...]
    took_s: float
    how: str
    """`supervisor`, `ladder` (no supervisor: done by us), or `nothing-ran`."""
    lost_tokens: int | None = None
    exit: dict[str, Any] | None = None
    signals: tuple[str, ...] = ()
    respawned: tuple[dict[str, Any], ...] = field(default=())
    """Processes with the same command line that were not there before: somebody started it again."""

    @property
    def done(self) -> bool:
        """Whether nothing is left."""
        return not self.left and not self.respawned

    def to_json(self) -> dict[str, Any]:
        """The result of the `stop` and `kill_stray` methods."""
        return {
            "done": self.done,
            "left": [one.to_json() for one in self.left],
            "took_s": round(self.took_s, 2),
            "how": self.how,
            "lost_tokens": self.lost_tokens,
            "exit": self.exit,
            "signals": list(self.signals),
            "respawned": [dict(one) for one in self.respawned],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Stopped:
        """The inverse of `to_json`, for what a helper answered."""
        left = []
        for one in value.get("left") or ():
            identity = Identity.from_json(one.get("identity"))
            if identity is not None:
                left.append(Left(identity, str(one.get("argv") or ""), str(one.get("state") or "?")))
        lost = number(value.get("lost_tokens"))
        return cls(
            tuple(left),
            number(value.get("took_s")) or 0.0,
            str(value.get("how") or ""),
            None if lost is None else int(lost),
            value.get("exit"),
            tuple(str(name) for name in value.get("signals") or ()),
            tuple(value.get("respawned") or ()),
        )


def record_stop(layout: Layout, by: str, stopped: Stopped, target: Identity | None, what: str) -> None:
    """Put a stop into the audit. Raises OperatorError("audit")."""
    left = "; ".join(str(one) for one in stopped.left)
    outcome = "stopped" if stopped.done else ("started again" if stopped.respawned and not stopped.left else "not gone")
    how = f"left: {left}" if left else f"took {stopped.took_s:.1f} s, {' '.join(stopped.signals) or stopped.how}"
    detail = f"pid {target.pid}, {how}" if target else how
    audit.record(layout, by, what, outcome, detail, target.to_json() if target else None)
