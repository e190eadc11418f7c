"""What becomes of a link in each way that it can break: what is told, how soon, and how soon it is live again.

One row a fault, as the issue on the link asks for it. The console is a controller of this process; for the sleeping
laptop it is a real `watch` that is stopped and goes on.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from console.connecting import Connector
from console.controller import Controller
from console.conversation import Connect
from console.view import LinkState, View
from remote.options import Budget, Options
from tests.support.netns import Namespace
from tests.support.sshd import Server
from tests.support.told import told, words_for
from tests.support.tree import SMALL_BUDGET

TOLD_TARGET_S = 10.0
BACK_TARGET_S = 3.0
LIMIT_S = 90.0
AWAY_S = (2.0, 8.0, 15.0, 20.0)
"""How long the network stays away, one after the other: found dead or not yet, at the first try or a later one."""
ASLEEP_S = 30.0
BEFORE_SILENCE_S = 3.0


@asynccontextmanager
async def console(root: Path, connect: Connect) -> AsyncIterator[tuple[Controller, asyncio.Event]]:
    """A controller, and an event for each view it publishes."""
    options = Options(root=str(root), token_budget=Budget(SMALL_BUDGET), engine_url="http://127.0.0.1:9")
    controller = Controller("bench", options, connect)
    changed = asyncio.Event()
    controller.subscribe(lambda view: changed.set())
    await controller.start()
    try:
        yield controller, changed
    finally:
        await controller.close()


async def until(controller: Controller, changed: asyncio.Event, holds: Callable[[View], bool]) -> float:
    """Seconds until a published view is so."""
    began_s = time.monotonic()
    async with asyncio.timeout(LIMIT_S):
        while not holds(controller.view):
            changed.clear()
            await changed.wait()
    return time.monotonic() - began_s


def full(view: View) -> bool:
    """Live, and every row of the table has its figures."""
    snapshot = view.snapshot
    return (
        view.link.state is LinkState.LIVE
        and snapshot is not None
        and len(snapshot.datasets) == 8
        and not {"datasets", "plan"} & set(snapshot.pending)
    )


@dataclass
class Row:
    """A fault's figures over its rounds; `back_from` says from when the way back is counted."""

    fault: str
    back_from: str
    back_target_s: float = BACK_TARGET_S
    told_s: list[float] = field(default_factory=list)
    back_s: list[float] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    def tell(self) -> bool:
        """Print it, and say whether its targets were met."""
        late = max(self.told_s) > TOLD_TARGET_S or max(self.back_s) > self.back_target_s
        said = " / ".join(dict.fromkeys(self.words))
        print(
            f"link: {self.fault} | {said} | told {_figures(self.told_s)} | live again {_figures(self.back_s)} after "
            f"{self.back_from} (target <= {self.back_target_s:g} s){'   MISSED' if late else ''}",
            flush=True,
        )
        return not late


def _figures(took_s: list[float]) -> str:
    return f"{statistics.median(took_s):.1f} s, worst {max(took_s):.1f} s"


async def faults(space: Namespace, server: Server, root: Path, home: Path, rounds: int) -> bool:
    """Print the whole table; whether every target was met."""
    met = True
    async with console(root, Connector(server.target())) as (controller, changed):
        await until(controller, changed, full)
        bed = _Bed(space, server, controller, changed)
        kill, freeze = signal.SIGKILL, signal.SIGSTOP
        for striking in (
            bed.away("network goes silent (Wi-Fi, VPN)", space.silence, space.heal, rounds),
            bed.away("cable pulled at our end", space.cut, space.mend, rounds),
            bed.struck("sshd session killed (kill -9)", lambda: bed.signal_sessions(kill), rounds),
            bed.struck("helper killed (kill -9)", lambda: bed.signal_agent(kill), rounds),
            bed.struck("sshd session frozen (SIGSTOP)", lambda: bed.signal_sessions(freeze), 1, 6.0),
            bed.struck("helper frozen (SIGSTOP)", lambda: bed.signal_agent(freeze), 1, 24.0),
        ):
            met = (await striking).tell() and met
        bed.wake_all()
    for row in await asyncio.to_thread(_asleep, space, server, root, home):
        met = row.tell() and met
    return met


class _Bed:
    """One console and one server, to be struck."""

    def __init__(self, space: Namespace, server: Server, controller: Controller, changed: asyncio.Event) -> None:
        self._space = space
        self._server = server
        self._controller = controller
        self._changed = changed
        self._stopped: list[int] = []

    async def away(self, fault: str, strike: Callable[[], None], heal: Callable[[], None], rounds: int) -> Row:
        row = Row(fault, "the network is back")
        for number in range(rounds):
            await asyncio.to_thread(strike)
            row.told_s.append(await self._until(lambda view: not view.link.fresh))
            await asyncio.sleep(AWAY_S[number % len(AWAY_S)])
            row.words.append(_words(self._controller.view))
            await asyncio.to_thread(heal)
            row.back_s.append(await self._until(full))
        return row

    async def struck(
        self,
        fault: str,
        strike: Callable[[], None],
        rounds: int,
        back_target_s: float = BACK_TARGET_S,
    ) -> Row:
        row = Row(fault, "being told", back_target_s)
        for _ in range(rounds):
            heard: list[View] = []
            unsubscribe = self._controller.subscribe(heard.append)
            strike()
            row.told_s.append(await self._until(lambda view: not view.link.fresh))
            row.back_s.append(await self._until(full))
            unsubscribe()
            row.words.append(_words(next(view for view in reversed(heard) if not view.link.fresh)))
        return row

    def signal_sessions(self, number: signal.Signals) -> None:
        self._signal(self._server.sessions(), number)

    def signal_agent(self, number: signal.Signals) -> None:
        snapshot = self._controller.view.snapshot
        assert snapshot is not None and snapshot.agent.pid is not None
        self._signal([snapshot.agent.pid], number)

    def wake_all(self) -> None:
        """Let go on whatever was stopped and is still there."""
        self._signal([pid for pid in self._stopped if Path(f"/proc/{pid}").exists()], signal.SIGCONT)

    def _signal(self, pids: list[int], number: signal.Signals) -> None:
        if number is signal.SIGSTOP:
            self._stopped += pids
        for pid in pids:
            os.kill(pid, number)

    async def _until(self, holds: Callable[[View], bool]) -> float:
        return await until(self._controller, self._changed, holds)


def _words(view: View) -> str:
    link = view.link
    return f"STALE: {link.error}" if link.error else "STALE"


def _asleep(space: Namespace, server: Server, root: Path, home: Path) -> list[Row]:
    """A real console is stopped for half a minute; its connection is no more, or still there, when it goes on."""
    rows = []
    words = [*words_for(server), "--root", str(root), "--engine-url", "http://127.0.0.1:9"]
    with told(*words, home=home) as watch:
        for fault, dead in (
            ("laptop slept, connection dropped meanwhile", True),
            ("laptop slept, link still good", False),
        ):
            row = Row(fault, "waking")
            os.kill(watch.process.pid, signal.SIGSTOP)
            time.sleep(BEFORE_SILENCE_S)
            if dead:
                space.silence()
                for pid in server.sessions():
                    os.kill(pid, signal.SIGKILL)
            time.sleep(ASLEEP_S - BEFORE_SILENCE_S)
            if dead:
                space.heal()
            seen, woke_s = len(watch.lines), time.monotonic()
            os.kill(watch.process.pid, signal.SIGCONT)
            first = watch.lost(seen)
            back = watch.live(watch.lines.index(first))
            between = watch.lines[watch.lines.index(first) : watch.lines.index(back)]
            row.told_s.append(first.at_s - woke_s)
            row.back_s.append(back.at_s - woke_s)
            said = [line.link["error"] for line in between if line.link.get("error")]
            row.words.append(f"STALE {first.link['age_s']:.0f} s" + (f": {said[-1]}" if said else ""))
            rows.append(row)
    return rows
