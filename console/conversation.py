"""One connection to one agent, from connecting to its end: greeting, snapshots, pings, and the clocks' difference."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from console.clock import steady_s, wall_s
from console.feed import Feed, OutOfStep, is_time
from console.model import Snapshot
from console.rpc import LinePipe, Rpc
from remote.errors import OperatorError
from remote.options import Options
from remote.protocol import Notification

Connect = Callable[[], Awaitable[LinePipe]]

CONNECT_DEADLINE_S = 90.0
HELLO_DEADLINE_S = 20.0
PING_DEADLINE_S = 10.0
CLOSE_DEADLINE_S = 0.7


class Listener(Protocol):
    """Who is told what happens on a connection."""

    def on_stage(self, stage: str) -> None:
        """What is being done right now, in a few words."""
        ...

    def on_trip(self, trip_s: float, skew_s: float) -> None:
        """An answer took so long, and the container's clock seems so far ahead of ours."""
        ...

    def on_heard(self) -> None:
        """The agent has said something. Called before it is believed: the doubt may begin here."""
        ...

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """The snapshot as it is now."""
        ...


class Conversation:
    """`run` connects, greets and listens until the end. `rpc` is None while there is no connection.

    `feed` outlives conversations: it keeps the last snapshot while there is no connection.
    """

    def __init__(self, target: str, connect: Connect, feed: Feed, listener: Listener) -> None:
        self._target = target
        self._connect = connect
        self._feed = feed
        self._listener = listener
        self._asides: set[asyncio.Task[None]] = set()
        self.doubted = False
        """What comes may have waited on this side for long: it is taken in, but nobody is told that it is news."""
        self.rpc: Rpc | None = None
        self.heard_s: float | None = None
        """When the agent last sent something of itself, on our steady clock."""

    @property
    def silent_s(self) -> float:
        """How long the agent has sent nothing of itself; 0 while there is none to listen to."""
        return steady_s() - self.heard_s if self.rpc is not None and self.heard_s is not None else 0.0

    async def run(self, options: Options, release: str | None) -> None:
        """Returns when the agent ends; raises the OperatorError with which connecting, greeting or the link failed."""
        self._listener.on_stage("connecting")
        pipe = await self._open()
        self._feed.lost()
        self.heard_s, self.doubted = steady_s(), False
        self.rpc = rpc = Rpc(pipe, self._take)
        reading = asyncio.create_task(rpc.run(), name="agent-read")
        try:
            self._listener.on_stage("greeting the agent")
            await self._timed(rpc, "hello", {"options": options.to_json(), "release": release}, HELLO_DEADLINE_S)
            self._listener.on_stage("waiting for the first look")
            await reading
        finally:
            self.rpc = None
            reading.cancel()
            for aside in self._asides:
                aside.cancel()
            with contextlib.suppress(TimeoutError, OperatorError):
                async with asyncio.timeout(CLOSE_DEADLINE_S):
                    await pipe.close()
            await asyncio.wait([reading], timeout=CLOSE_DEADLINE_S)
            if reading.done() and not reading.cancelled():
                reading.exception()  # told already, by `await reading` or by the greeting

    async def _open(self) -> LinePipe:
        try:
            async with asyncio.timeout(CONNECT_DEADLINE_S):
                return await self._connect()
        except TimeoutError:
            message = f"connecting to {self._target} took longer than {CONNECT_DEADLINE_S:g} s"
            raise OperatorError("timeout", message, "R tries again") from None
        except OSError as failed:
            raise OperatorError("connect", f"cannot connect to {self._target}: {failed}", "R tries again") from None

    def ping(self) -> None:
        """Let the agent know that we are here, and measure the clocks; does not wait."""
        if self.rpc is not None:
            self._aside(self._timed(self.rpc, "ping", {}, PING_DEADLINE_S))

    async def prove(self, limit_s: float) -> None:
        """End the doubt by a question that is asked now: its answer comes after all that the agent had said before.

        Raises OperatorError when there is none within `limit_s`; the doubt lasts until the conversation ends then.
        """
        if self.rpc is None:
            return
        await self._timed(self.rpc, "ping", {}, limit_s)
        self.doubted = False
        self._hear()
        if self._feed.snapshot is not None:
            self._listener.on_snapshot(self._feed.snapshot)

    def drop(self, why: str) -> None:
        """Give the connection up; `run` raises, and every waiting call with it."""
        if self.rpc is not None:
            self.rpc.drop(OperatorError("silent", why, "connecting anew"))

    async def _timed(self, rpc: Rpc, method: str, params: Mapping[str, Any], timeout_s: float) -> None:
        """A call whose result tells the container's time: the skew is taken at the middle of the trip."""
        began_s, began_wall_s = steady_s(), wall_s()
        result = await rpc.call(method, params, timeout_s)
        trip_s = steady_s() - began_s
        at: Any = result.get("at") if isinstance(result, dict) else None
        if is_time(at):
            self._listener.on_trip(trip_s, at - (began_wall_s + trip_s / 2))

    def _hear(self) -> None:
        self._listener.on_heard()
        if not self.doubted:
            self.heard_s = steady_s()

    def _take(self, message: Notification) -> None:
        try:
            snapshot = self._feed.take(message)
        except OutOfStep:
            # Not heard: what means nothing to us keeps nothing fresh.
            self._ask_again()
            return
        self._hear()
        if snapshot is not None and not self.doubted:
            self._listener.on_snapshot(snapshot)

    def _ask_again(self) -> None:
        """Call `resync` without waiting: its answer is a whole snapshot, a notification like any other."""
        if not self._feed.asked_again and self.rpc is not None:
            self._feed.asked_again = True
            self._aside(self.rpc.call("resync", {}, HELLO_DEADLINE_S))

    def _aside(self, work: Awaitable[Any]) -> None:
        async def quietly() -> None:
            # What goes wrong here goes wrong for the reading task too, which tells it.
            with contextlib.suppress(OperatorError):
                await work

        task = asyncio.create_task(quietly(), name="agent-aside")
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)
