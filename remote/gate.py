"""Whether the engine can be asked now. While it is away everybody waits here, and no prompt loses a try.

The gate closes when somebody reports a broken connection, a refused one, or an engine that answers 502 to 504. It then
looks for itself, quickly while nobody listens and every fifteen seconds while /health says that it loads, and opens when
it is healthy and its model is the right one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from remote.probe import HEALTH_EVERY_S, HEALTH_LIMIT_S

Look = Callable[[], Awaitable[tuple[str, str]]]


@dataclass(frozen=True)
class GatePace:
    """Seconds between looks: while nobody listens, and while it loads; and the limit of one look."""

    down_s: float = 1.0
    loading_s: float = HEALTH_EVERY_S
    look_limit_s: float = HEALTH_LIMIT_S


class Gate:
    """One engine's availability.

    `look` is one look at /health, `(health, detail)`; `verify` is called before the gate opens again and may raise
    OperatorError (another model); `say` is told each change in one sentence; `crashed` once for every time the engine
    was found down, with the prompts it had when it broke.
    """

    def __init__(
        self,
        look: Look,
        verify: Callable[[], Awaitable[None]],
        say: Callable[[str], None],
        crashed: Callable[[frozenset[str]], None],
        pace: GatePace,
    ) -> None:
        self._look = look
        self._verify = verify
        self._say = say
        self._crashed = crashed
        self._pace = pace
        self._open = asyncio.Event()
        self._closed = asyncio.Event()
        self._closed.set()
        self._why = "not asked yet"
        self._lost: set[str] = set()
        self._looked_at = float("-inf")
        self.state = "unknown"
        """`healthy`, `loading`, `down`, `unhealthy` or `unknown`: what progress.json says of the engine."""

    @property
    def is_open(self) -> bool:
        """Whether requests may be sent now."""
        return self._open.is_set()

    async def wait_open(self) -> None:
        """Return when requests may be sent."""
        await self._open.wait()

    def report(self, why: str, lost: str | None = None) -> None:
        """Somebody met a broken or refused connection; `lost` names the prompt that the engine had then."""
        if lost is not None:
            self._lost.add(lost)
        if self._open.is_set():
            self._why = why
            self._open.clear()
            self._closed.set()

    def ask(self, why: str) -> None:
        """Somebody was told that the engine is busy: look whether it loads, unless that was looked at just now."""
        if asyncio.get_running_loop().time() - self._looked_at >= self._pace.loading_s:
            self.report(why)

    async def keep(self) -> None:
        """Look whenever the gate is closed, for ever. Raises OperatorError when another model came back."""
        while True:
            await self._closed.wait()
            await self._reopen()

    async def _reopen(self) -> None:
        said = ""
        was_down = False
        wait_s = self._pace.down_s
        while True:
            self.state, detail = await self._look()
            self._looked_at = asyncio.get_running_loop().time()
            if self.state == "healthy":
                break
            was_down = was_down or self.state == "down"
            if self.state != said:
                said = self.state
                self._say(f"the engine is {self.state} ({detail or self._why}); waiting for it, no try is used up")
            slow = self.state != "down"
            wait_s = min(max(wait_s * 2, self._pace.down_s), self._pace.loading_s) if slow else self._pace.down_s
            await asyncio.sleep(wait_s)
        await self._verify()
        if said:
            self._say("the engine is healthy again")
        lost, self._lost = frozenset(self._lost), set()
        if was_down and lost:
            self._crashed(lost)
        self._closed.clear()
        self._open.set()
