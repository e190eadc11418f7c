"""The engines behind a router: which of them died, and which prompts they had when they did.

A router answers in the name of an engine that it lost, and goes on asking the others. It does not say whether the engine
died with the request or was dead already and refused it. So the engine itself is looked at, once for all that were lost
together: where it is away no prompt loses a try, and only those that were sent before the first of them broke were part
of its crash. An engine that was never reached from here can tell nothing, and is not waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from remote.gate import GatePace
from remote.masking import masked_url
from remote.text import clean

LookAt = Callable[[str], Awaitable[tuple[str, str]]]


@dataclass
class _Outage:
    """One engine, from the first request that broke on it until it is healthy. `began_at` is when that one broke."""

    began_at: float
    found: asyncio.Future[str]
    """What the first look said."""


@dataclass
class _Worker:
    reached: bool = False
    """Whether it ever answered a look from here."""
    outage: _Outage | None = None
    back_at: float = float("-inf")
    """When its last outage was over."""


class Workers:
    """The engines of one run. `look_at` is one look at the /health of an address, `(health, detail)`; `say` is told each
    change in one sentence; `crashed` is told of a prompt that an engine had when it died. Times are the loop's seconds."""

    def __init__(
        self, look_at: LookAt, say: Callable[[str], None], crashed: Callable[[str], object], pace: GatePace
    ) -> None:
        self._look_at = look_at
        self._say = say
        self._crashed = crashed
        self._pace = pace
        self._workers: dict[str, _Worker] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    def meet(self, urls: Iterable[str]) -> None:
        """The router names these; those that were never reached are looked at, in passing."""
        named = {url: self._workers.get(url) or _Worker() for url in urls}
        # One that is away stays known until it is back, named or not.
        self._workers = {url: known for url, known in self._workers.items() if known.outage is not None} | named
        for url, worker in named.items():
            if not worker.reached:
                self._begin(self._look(url), f"meet {url}")

    async def health(self) -> tuple[str, str] | None:
        """(health, detail) of all together: healthy when one of them is. None where that cannot be told: no router, or an
        engine that was never reached from here."""
        if not self._workers or not all(worker.reached for worker in self._workers.values()):
            return None
        looks = [asyncio.ensure_future(self._look(url)) for url in self._workers]
        states: set[str] = set()
        try:
            for look in asyncio.as_completed(looks):
                state, detail = await look
                if state == "healthy":
                    return state, detail
                states.add(state)
        finally:
            for each in looks:
                each.cancel()
        best = next(state for state in ("loading", "unhealthy", "unknown", "down") if state in states)
        return best, f"none of the {len(looks)} engines behind the router answers"

    async def lost(self, url: str, prompt: str, sent_at: float, broke_at: float) -> bool:
        """The router lost a request of `prompt` to the engine at `url`. Whether the engine's being away explains it; if not,
        it may be the prompt's own doing. Returns after one look at the engine, which has its own limit."""
        worker = self._workers.setdefault(url, _Worker())
        if broke_at < worker.back_at:
            return True
        outage = worker.outage
        if outage is None:
            outage = worker.outage = _Outage(broke_at, asyncio.get_running_loop().create_future())
            self._begin(self._watch(url, worker, outage), f"watch {url}")
        outage.began_at = min(outage.began_at, broke_at)
        had_it = sent_at <= outage.began_at
        state = await asyncio.shield(outage.found)
        if state in ("healthy", "unknown"):
            return False
        if not had_it:
            return True
        if state == "down":
            self._crashed(prompt)
        return state == "down"

    async def close(self) -> None:
        """Stop looking."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _look(self, url: str) -> tuple[str, str]:
        found = await self._look_at(url)
        worker = self._workers.get(url)
        if worker is not None and found[0] in ("healthy", "loading"):
            worker.reached = True
        return found

    async def _watch(self, url: str, worker: _Worker, outage: _Outage) -> None:
        """Look at an engine until it is healthy."""
        name = clean(masked_url(url), 120)
        try:
            state, detail = await self._look(url)
            if not worker.reached:
                state = "unknown"
            outage.found.set_result(state)
            if state in ("healthy", "unknown"):
                return
            self._say(f"{name} behind the router is {state} ({detail}); the others are asked, no try is used up")
            while state != "healthy":
                await asyncio.sleep(self._pace.down_s if state == "down" else self._pace.loading_s)
                state, detail = await self._look(url)
            worker.back_at = asyncio.get_running_loop().time()
            self._say(f"{name} behind the router is healthy again")
        finally:
            worker.outage = None
            if not outage.found.done():
                outage.found.set_result("unknown")

    def _begin(self, work: Coroutine[Any, Any, object], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
