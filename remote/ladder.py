"""How something is stopped: the rungs, gentlest first, as a pure state machine with the clock passed in.

The supervisor climbs it for its generator, and a detached helper climbs it where there is no
supervisor or the process is not one of ours. Who climbs asks `step`, sends what it says, and
waits as long as it says.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from enum import Enum

SETTLE_S = 20.0
"""For a generator told to stop now: cancel, abort on the engine, flush and fsync."""
TERM_S = 5.0
KILL_S = 5.0
STRAY_S = 10.0
"""For a process that we know nothing about: each of INT and TERM gets this long."""


class Aim(Enum):
    """Whom a rung signals."""

    LEADER = "leader"
    ALL = "all"


@dataclass(frozen=True)
class Rung:
    """One signal, and how many seconds it is given."""

    signal: signal.Signals
    aim: Aim
    wait_s: float


_TERM_ALL = Rung(signal.SIGTERM, Aim.ALL, TERM_S)
_KILL_ALL = Rung(signal.SIGKILL, Aim.ALL, KILL_S)


def rungs(mode: str, drain_s: float = 0.0) -> tuple[Rung, ...]:
    """The rungs of a mode: `drain`, `now`, `force`, `rest` (what outlived its leader) or `stray`.

    The generator takes the first TERM as a drain (or as a stop, when `stop.json` says so) and a
    second one as stop now, so a drain that overruns is asked once more before anything is forced.
    """
    ask = Rung(signal.SIGTERM, Aim.LEADER, SETTLE_S)
    if mode == "drain":
        return (Rung(signal.SIGTERM, Aim.LEADER, drain_s + SETTLE_S), ask, _TERM_ALL, _KILL_ALL)
    if mode == "now":
        return (ask, _TERM_ALL, _KILL_ALL)
    if mode == "force":
        return (_KILL_ALL,)
    if mode == "rest":
        return (_TERM_ALL, _KILL_ALL)
    if mode == "stray":
        return (
            Rung(signal.SIGINT, Aim.ALL, STRAY_S),
            Rung(signal.SIGTERM, Aim.ALL, STRAY_S),
            _KILL_ALL,
        )
    raise ValueError(f"no such way to stop: {mode}")


def longest_s(mode: str, drain_s: float = 0.0) -> float:
    """How long a ladder can take, in seconds."""
    return sum(rung.wait_s for rung in rungs(mode, drain_s))


_STRENGTH = {"drain": 0, "now": 1, "rest": 1, "stray": 1, "force": 2}


class Ladder:
    """One stop in progress. `mode` is the strongest that was asked for."""

    def __init__(self, mode: str, now_s: float, drain_s: float = 0.0) -> None:
        self.mode = mode
        self._rungs = rungs(mode, drain_s)
        self._index = -1
        self._until = now_s

    def escalate(self, mode: str, now_s: float) -> bool:
        """A stronger mode takes over at once; a weaker or equal one changes nothing. Returns whether it did."""
        if _STRENGTH[mode] <= _STRENGTH[self.mode]:
            return False
        self.__init__(mode, now_s)  # type: ignore[misc]
        return True

    def step(self, now_s: float) -> Rung | None:
        """The rung to signal at this moment, or None while the present one has time left (or none is left)."""
        if now_s < self._until or self.exhausted(now_s):
            return None
        self._index += 1
        if self._index >= len(self._rungs):
            return None
        rung = self._rungs[self._index]
        self._until = now_s + rung.wait_s
        return rung

    def wait_s(self, now_s: float) -> float:
        """Seconds until `step` has something to say."""
        return max(0.0, self._until - now_s)

    def exhausted(self, now_s: float) -> bool:
        """Whether the last rung has had its time: what is left now cannot be stopped by signals."""
        return self._index >= len(self._rungs) - 1 and now_s >= self._until

    @property
    def killed(self) -> bool:
        """Whether SIGKILL was sent."""
        return any(rung.signal == signal.SIGKILL for rung in self._rungs[: self._index + 1])
