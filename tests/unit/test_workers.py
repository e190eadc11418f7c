"""Engines behind a router: which prompts an outage explains, which were part of a crash, and when nothing can be told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from remote.gate import GatePace
from remote.workers import Workers

ONE, TWO = "http://127.0.0.1:1", "http://127.0.0.1:2"
PACE = GatePace(down_s=0.001, loading_s=0.001)


class Bench:
    """Two engines whose health a test sets, and what the workers made of it."""

    def __init__(self) -> None:
        self.states = {ONE: "healthy", TWO: "healthy"}
        self.crashed: list[str] = []
        self.said: list[str] = []
        self.looks = 0
        self._news = asyncio.Event()
        self.workers = Workers(self.look, self.say, self.crashed.append, PACE)

    def say(self, line: str) -> None:
        self.said.append(line)
        self._news.set()

    async def look(self, url: str) -> tuple[str, str]:
        self.looks += 1
        self._news.set()
        await asyncio.sleep(0)
        return self.states[url], "as set"

    async def until(self, seen: Callable[[], object]) -> None:
        async def watch() -> None:
            while not seen():
                self._news.clear()
                await self._news.wait()

        await asyncio.wait_for(watch(), 10)

    async def meet(self) -> None:
        self.workers.meet((ONE, TWO))
        await self.until(lambda: self.looks >= 2)


def play(scene: Callable[[Bench], Awaitable[None]]) -> Bench:
    async def whole() -> Bench:
        bench = Bench()
        await bench.meet()
        await scene(bench)
        await bench.workers.close()
        return bench

    return asyncio.run(whole())


def test_those_that_an_engine_had_are_told_from_those_that_it_refused() -> None:
    async def scene(bench: Bench) -> None:
        bench.states[ONE] = "down"
        together = [bench.workers.lost(ONE, name, sent_at=1.0, broke_at=5.0 + n) for n, name in enumerate("ab")]
        assert await asyncio.gather(*together) == [True, True]
        assert await bench.workers.lost(ONE, "refused", sent_at=5.5, broke_at=5.6)

    bench = play(scene)
    assert sorted(bench.crashed) == ["a", "b"]
    assert len(bench.said) == 1 and f"{ONE} behind the router is down" in bench.said[0]


def test_the_first_that_broke_counts_whoever_reports_first() -> None:
    async def scene(bench: Bench) -> None:
        bench.states[ONE] = "down"
        late = asyncio.ensure_future(bench.workers.lost(ONE, "had", sent_at=1.0, broke_at=9.0))
        early = asyncio.ensure_future(bench.workers.lost(ONE, "had too", sent_at=1.0, broke_at=5.0))
        assert await late and await early
        assert await bench.workers.lost(ONE, "sent between", sent_at=7.0, broke_at=8.0)

    assert play(scene).crashed == ["had", "had too"]


def test_an_engine_that_lives_explains_nothing() -> None:
    async def scene(bench: Bench) -> None:
        assert not await bench.workers.lost(ONE, "a", sent_at=1.0, broke_at=2.0)

    bench = play(scene)
    assert not bench.crashed and not bench.said


def test_an_engine_that_loads_had_no_crash_that_could_be_proved() -> None:
    async def scene(bench: Bench) -> None:
        bench.states[ONE] = "loading"
        assert not await bench.workers.lost(ONE, "had", sent_at=1.0, broke_at=2.0)
        assert await bench.workers.lost(ONE, "refused", sent_at=3.0, broke_at=4.0)

    assert not play(scene).crashed


def test_one_that_was_never_reached_can_tell_nothing() -> None:
    async def scene(bench: Bench) -> None:
        stranger = "http://127.0.0.1:3"
        bench.states[stranger] = "down"
        bench.workers.meet((ONE, stranger))
        assert not await bench.workers.lost(stranger, "a", sent_at=1.0, broke_at=2.0)
        bench.states[ONE] = "down"
        assert await bench.workers.health() is None

    bench = play(scene)
    assert not bench.crashed and not bench.said


def test_an_outage_ends_when_the_engine_is_back_and_the_next_one_is_another_crash() -> None:
    async def scene(bench: Bench) -> None:
        now = asyncio.get_running_loop().time
        bench.states[ONE] = "down"
        assert await bench.workers.lost(ONE, "a", sent_at=now(), broke_at=now())
        broke_at = now()
        bench.states[ONE] = "healthy"
        await bench.until(lambda: any("healthy again" in line for line in bench.said))
        assert await bench.workers.lost(ONE, "straggler", sent_at=broke_at, broke_at=broke_at)
        bench.states[ONE] = "down"
        assert await bench.workers.lost(ONE, "a", sent_at=now(), broke_at=now())

    assert play(scene).crashed == ["a", "a"]


def test_all_together_are_as_well_as_the_best_of_them() -> None:
    async def scene(bench: Bench) -> None:
        seen = []
        for states in (("healthy", "down"), ("down", "healthy"), ("down", "loading"), ("down", "down")):
            bench.states.update(zip((ONE, TWO), states, strict=True))
            found = await bench.workers.health()
            assert found is not None
            seen.append(found[0])
        assert seen == ["healthy", "healthy", "loading", "down"]
        bench.workers.meet(())
        assert await bench.workers.health() is None

    play(scene)


def test_an_engine_that_never_answers_a_look_ends_with_the_run() -> None:
    async def scene(bench: Bench) -> None:
        bench.states[ONE] = "down"
        assert await bench.workers.lost(ONE, "a", sent_at=1.0, broke_at=2.0)
        await asyncio.wait_for(bench.workers.close(), 10)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    play(scene)
