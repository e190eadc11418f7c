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
REST_S = 2.0
"""What outlived the generator gets this long to end by itself."""
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


_KILL_ALL = Rung(signal.SIGKILL, Aim.ALL, KILL_S)


def rungs(mode: str, drain_s: float = 0.0, patience_s: float | None = None) -> tuple[Rung, ...]:
    """The rungs of a mode: `drain`, `now`, `force`, `rest` (what outlived its leader) or `stray`.

    `patience_s` is what each gentle rung is given at most; not given, `SETTLE_S` for our generator, `TERM_S` for what
    is beside it and `STRAY_S` for processes of others.
    The generator takes the first TERM as a drain (or as a stop, when `stop.json` says so) and a
    second one as stop now, so a drain that overruns is asked once more before anything is forced.
    """
    settle_s = SETTLE_S if patience_s is None else patience_s
    stray_s = STRAY_S if patience_s is None else patience_s
    ask = Rung(signal.SIGTERM, Aim.LEADER, settle_s)
    term_all = Rung(signal.SIGTERM, Aim.ALL, TERM_S if patience_s is None else min(TERM_S, patience_s))
    if mode == "drain":
        return (Rung(signal.SIGTERM, Aim.LEADER, drain_s + settle_s), ask, term_all, _KILL_ALL)
    if mode == "now":
        return (ask, term_all, _KILL_ALL)
    if mode == "force":
        return (_KILL_ALL,)
    if mode == "rest":
        return (term_all, _KILL_ALL)
    if mode == "stray":
        return (
            Rung(signal.SIGINT, Aim.ALL, stray_s),
            Rung(signal.SIGTERM, Aim.ALL, stray_s),
            _KILL_ALL,
        )
    raise ValueError(f"no such way to stop: {mode}")


def longest_s(mode: str, drain_s: float = 0.0, patience_s: float | None = None) -> float:
    """How long a ladder can take, in seconds."""
    return sum(rung.wait_s for rung in rungs(mode, drain_s, patience_s))


_STRENGTH = {"drain": 0, "now": 1, "rest": 1, "stray": 1, "force": 2}


class Ladder:
    """One stop in progress. `mode` is the strongest that was asked for."""

    def __init__(self, mode: str, now_s: float, drain_s: float = 0.0, patience_s: float | None = None) -> None:
        self.mode = mode
        self._patience_s = patience_s
        self._rungs = rungs(mode, drain_s, patience_s)
        self._index = -1
        self._until = now_s
        self._killed = False

    def escalate(self, mode: str, now_s: float) -> bool:
        """A stronger mode takes over at once; a weaker or equal one changes nothing. Returns whether it did."""
        if _STRENGTH[mode] <= _STRENGTH[self.mode]:
            return False
        self.mode, self._index, self._until = mode, -1, now_s
        self._rungs = rungs(mode, patience_s=self._patience_s)
        return True

    def step(self, now_s: float) -> Rung | None:
        """The rung to signal at this moment, or None while the present one has time left (or none is left)."""
        if now_s < self._until or self.exhausted(now_s):
            return None
        self._index += 1
        rung = self._rungs[self._index]
        self._until = now_s + rung.wait_s
        self._killed |= rung.signal == signal.SIGKILL
        return rung

    def leader_gone(self, now_s: float) -> None:
        """Nobody is left to settle anything: what is beside the leader gets a moment, then its own rungs."""
        ahead = self._rungs[max(0, self._index) :]
        if any(rung.aim is Aim.LEADER for rung in ahead):
            self._rungs = tuple(rung for rung in ahead if rung.aim is Aim.ALL)
            self._index = -1
            self._until = now_s + REST_S

    def wait_s(self, now_s: float) -> float:
        """Seconds until `step` has something to say."""
        return max(0.0, self._until - now_s)

    def exhausted(self, now_s: float) -> bool:
        """Whether the last rung has had its time: what is left now cannot be stopped by signals."""
        return self._index >= len(self._rungs) - 1 and now_s >= self._until

    @property
    def killed(self) -> bool:
        """Whether SIGKILL was sent."""
        return self._killed
