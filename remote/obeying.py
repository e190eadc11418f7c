"""How the supervisor hears that it is to stop, and carries that out a rung at a time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from remote.identity import Identity, send
from remote.ladder import REST_S, Aim, Ladder
from remote.layout import Layout
from remote.members import describe, find_members
from remote.runfile import STOP_MODES, Run, number, read_progress, read_stop

_IDLE_S = 10.0
"""So often it looks for a stop that no signal announced."""
_STUCK_S = 1.0


class Obeying:
    """The stop of one run. `asked` is what was asked for, None while nothing was."""

    def __init__(self, layout: Layout, run: Run, log: Callable[[str], None]) -> None:
        self._layout = layout
        self._run = run
        self._log = log
        self._ladder: Ladder | None = None
        self._signals = 0
        self.asked: dict[str, Any] | None = None
        self.lost_tokens: int | None = None
        """What was decoded for answers in flight when a stop cut them off; None while nothing was cut, or untold."""

    def signalled(self) -> None:
        """A TERM or INT came. Safe in a signal handler."""
        self._signals += 1

    @property
    def killed(self) -> bool:
        """Whether SIGKILL was ours."""
        return self._ladder is not None and self._ladder.killed

    def follow(self, run: Run) -> None:
        """The run's identities are known now."""
        self._run = run

    def climb(self, now_s: float) -> float:
        """Send what is due; returns seconds until there may be more to do. `now_s` is monotonic."""
        if self.asked is None and not self._signals and read_stop(self._layout, self._run.run_id) is not None:
            # Whoever wrote it died before the signal, and meant it all the same.
            self._signals = 1
        if self._signals:
            again, self._signals = self.asked is not None, 0
            request = read_stop(self._layout, self._run.run_id)
            if request is None:
                # A plain kill of the supervisor: the first drains, a second means it.
                request = {"mode": "now" if again else "drain", "by": "a signal"}
            self._take(request, now_s)
        if self._ladder is None:
            return _IDLE_S
        rung = self._ladder.step(now_s)
        if rung is not None:
            generator = self._run.generator
            leader = [generator] if rung.aim is Aim.LEADER and generator is not None else None
            self._send(rung.signal, leader or self.members(), f", waiting {rung.wait_s:.0f} s")
        return _STUCK_S if self._ladder.exhausted(now_s) else self._ladder.wait_s(now_s) + 0.01

    def sweep(self, sleep: Callable[[float], None]) -> list[dict[str, Any]]:
        """End what outlived the generator, which must still be unreaped; returns what would not go."""
        ladder = Ladder("rest", time.monotonic() + REST_S, patience_s=number((self.asked or {}).get("patience_s")))
        while members := self.members():
            now_s = time.monotonic()
            if ladder.exhausted(now_s):
                return [describe(member).to_json() for member in members]
            rung = ladder.step(now_s)
            if rung is not None:
                self._send(rung.signal, members, ", left by the generator")
            sleep(0.1)
        return []

    def members(self) -> list[Identity]:
        """The run's living processes, but for the supervisor."""
        return find_members(self._run.run_id, self._run.generator, self._run.supervisor)

    def _take(self, request: dict[str, Any], now_s: float) -> None:
        mode = str(request.get("mode")) if request.get("mode") in STOP_MODES else "drain"
        if self._ladder is None:
            drain_s = number(request.get("drain_s"))
            seconds = self._run.options.drain_s if drain_s is None else drain_s
            self._ladder = Ladder(mode, now_s, seconds, number(request.get("patience_s")))
        elif not self._ladder.escalate(mode, now_s):
            return
        self.asked = {**request, "mode": mode}
        if mode != "drain":
            lost = number(read_progress(self._layout, self._run.run_id).get("lost_if_stopped_tokens"))
            self.lost_tokens = None if lost is None else int(lost)
        self._log(f"asked to stop ({mode}) by {request.get('by') or 'somebody'}")

    def _send(self, signal_: int, targets: list[Identity], words: str) -> None:
        for target in targets:
            with contextlib.suppress(PermissionError):
                send(target, signal_)
        names = ", ".join(str(target.pid) for target in targets) or "nobody"
        self._log(f"sent {getattr(signal_, 'name', signal_)} to {names}{words}")
