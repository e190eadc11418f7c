"""Requests that never end, and an engine that looks healthy and decodes nothing.

A request has a deadline from its token limit and the measured speed, never from the clock alone. When nothing at all has
ended for a while, the engine's own counters are looked at: if they stand still too, everything in flight is ended and
asked again. An engine that says nothing of its load is judged by deadlines alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from remote.attempts import Attempt, Attempts
from remote.probe import EngineFacts


@dataclass(frozen=True)
class WatchPace:
    """Seconds. A request may take `grace_s` + `patience` × limit / speed; `unknown_tokens_s` is the speed assumed before
    any answer. After `quiet_s` without an answer the load is looked at every `look_every_s`, and when it has not moved
    for `stalled_s` the engine is stalled."""

    grace_s: float = 300.0
    patience: float = 4.0
    unknown_tokens_s: float = 2.0
    quiet_s: float = 60.0
    look_every_s: float = 15.0
    stalled_s: float = 180.0


def deadline_s(limit_tokens: int, speed_tokens_s: float | None, pace: WatchPace) -> float:
    """How long a request with this token limit may take, in seconds."""
    return pace.grace_s + pace.patience * limit_tokens / max(speed_tokens_s or pace.unknown_tokens_s, 0.1)


def overdue(attempts: Iterable[Attempt], now: float, speed_tokens_s: float | None, pace: WatchPace) -> list[Attempt]:
    """The requests that have outlived their deadline."""
    return [item for item in attempts if now - item.sent_at > deadline_s(item.limit, speed_tokens_s, pace)]


def moved(before: EngineFacts | None, after: EngineFacts) -> bool | None:
    """Whether the engine decoded between two looks; None when it does not say."""
    if before is None:
        return None
    pairs = [(before.generated_tokens, after.generated_tokens), (before.used_tokens, after.used_tokens)]
    known = [(was, now) for was, now in pairs if was is not None and now is not None]
    return any(was != now for was, now in known) if known else None


class Watchdog:
    """Watches one run's requests; `look` is a look at the engine's load, None when it cannot be had."""

    def __init__(
        self,
        attempts: Attempts,
        speed: Callable[[], float | None],
        look: Callable[[], Awaitable[EngineFacts | None]],
        say: Callable[[str], None],
        pace: WatchPace,
    ) -> None:
        self._attempts = attempts
        self._speed = speed
        self._look = look
        self._say = say
        self._pace = pace
        self._alive_at = 0.0
        self._facts: EngineFacts | None = None
        self._looked_at = float("-inf")
        self._looking: asyncio.Task[EngineFacts | None] | None = None

    def alive(self, now: float) -> None:
        """The engine answered somebody, or came back."""
        self._alive_at, self._facts = now, None

    def tick(self, now: float) -> None:
        """Once a second: end what is overdue, and look at an engine that has been quiet for long."""
        for attempt in overdue(list(self._attempts.now.values()), now, self._speed(), self._pace):
            self._say(
                f"a request of {attempt.folder} has not been answered in {now - attempt.sent_at:.0f} s; asked again"
            )
            self._attempts.end(attempt, "deadline")
        if not self._attempts.now:
            self.alive(now)
        elif now - self._alive_at > self._pace.quiet_s:
            self._look_at_load(now)

    def _look_at_load(self, now: float) -> None:
        if self._looking is not None:
            if not self._looking.done():
                return
            self._judge(self._looking.result(), now)
            self._looking = None
        if now - self._looked_at >= self._pace.look_every_s:
            self._looked_at = now
            self._looking = asyncio.create_task(self._quiet_look(), name="load")

    async def _quiet_look(self) -> EngineFacts | None:
        return await self._look()

    def _judge(self, facts: EngineFacts | None, now: float) -> None:
        if facts is None:
            return
        progress = moved(self._facts, facts)
        if progress is not False:
            self._facts = facts
            if progress:
                self._alive_at = now - self._pace.quiet_s
            return
        quiet_s = now - self._alive_at
        if quiet_s < self._pace.stalled_s:
            return
        waiting = list(self._attempts.now.values())
        self._say(f"the engine has decoded nothing for {quiet_s:.0f} s; asking again for all {len(waiting)} in flight")
        for attempt in waiting:
            self._attempts.end(attempt, "stalled")
        self.alive(now)
