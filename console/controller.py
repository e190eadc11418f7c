"""Keeps one container's latest snapshot, and says how far it can be trusted.

Plain asyncio: it knows no widget and no SSH. It is given a way to connect, holds one
conversation with the agent at a time, notices silence, reconnects by itself with a jittered
backoff, and publishes frozen views. Nothing that runs on the container depends on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from console import rates
from console.alerts import AlertHistory, judge
from console.clock import steady_s, wall_s
from console.conversation import Connect, Conversation
from console.feed import Feed
from console.link_state import after_failure, backoff_s
from console.model import Snapshot
from console.thresholds import Thresholds
from console.view import Link, LinkState, View
from remote.errors import OperatorError
from remote.options import Options
from remote.text import clean

Subscriber = Callable[[View], None]

STALE_AFTER_S = 6.0
"""The agent speaks at least once a second; six seconds of silence are no coincidence on a bad link."""

GIVE_UP_AFTER_S = 25.0
"""Silence after which the pipe is dropped and another agent is started."""

ASLEEP_S = 6.0
"""This process itself did not run for so long: the laptop slept, or it was stopped. What it now finds to read may be
as old as that, and looks like news."""

WAKE_ANSWER_S = 1.5
"""What a link that survived a sleep takes to answer; it is made anew otherwise, which takes no longer."""

WATCH_EVERY_S = 1.0
PING_EVERY_S = 10.0
PUBLISH_EVERY_S = 0.3
CLOSE_DEADLINE_S = 0.75


class Controller:
    """One container: `start()`, then `view` and `subscribe`, `call`, and `close()`.

    `release` is the digest of the shipped code as this side knows it; `thresholds` say when
    alerts are raised. Not safe for use from several threads.
    """

    def __init__(
        self,
        target: str,
        options: Options,
        connect: Connect,
        *,
        thresholds: Thresholds | None = None,
        release: str | None = None,
    ) -> None:
        self._release = release
        self._thresholds = thresholds or Thresholds()
        self._options = options
        self._link = Link(target=target)
        self._feed = Feed()
        self._talk = Conversation(target, connect, self._feed, self)
        self._rates = rates.RateHistory()
        self._alerts = AlertHistory()
        self._retry_now = asyncio.Event()
        self._dirty = asyncio.Event()
        self._settled = asyncio.Event()
        self._arrived = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._subscribers: list[Subscriber] = []
        self._error: OperatorError | None = None
        self._closed = False
        self._awake_s = steady_s()
        self._proving: asyncio.Task[None] | None = None
        self._view = View(now=wall_s(), link=self._link, options=options)

    @property
    def view(self) -> View:
        """The latest view."""
        return self._view

    @property
    def options(self) -> Options:
        """The options the agent works by."""
        return self._options

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Call back with each new view, at most a few times a second; returns what ends it."""
        self._subscribers.append(callback)

        def unsubscribe() -> None:
            with contextlib.suppress(ValueError):
                self._subscribers.remove(callback)

        return unsubscribe

    async def start(self) -> None:
        """Begin to connect and to publish; returns at once."""
        if self._tasks or self._closed:
            return
        self._awake_s = steady_s()
        self._tasks = [
            asyncio.create_task(self._keep_connected(), name="controller-link"),
            asyncio.create_task(self._watch(), name="controller-watch"),
            asyncio.create_task(self._publish(), name="controller-publish"),
        ]

    async def close(self) -> None:
        """End the link within a second; what runs on the container runs on."""
        if self._closed:
            return
        self._closed = True
        rpc = self._talk.rpc
        if rpc is not None:
            with contextlib.suppress(OperatorError):
                await rpc.call("bye", {}, 0.2)
        tasks = [*self._tasks, *([self._proving] if self._proving is not None else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_DEADLINE_S)
        self._set_link(state=LinkState.CLOSED, stage="")
        self._settled.set()
        self._make_view()

    def reconnect_now(self) -> None:
        """Try again at once: instead of waiting for the backoff, or for a silent link to be given up."""
        self._retry_now.set()
        if self._link.state is LinkState.STALE:
            self._talk.drop(f"{self._link.target} was silent")

    async def ready(self, timeout_s: float) -> View:
        """Wait for the first snapshot. Raises the first connection's OperatorError, or `timeout`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._settled.wait()
        except TimeoutError:
            stage = f" ({self._link.stage})" if self._link.stage else ""
            raise OperatorError(
                "timeout",
                f"{self._link.target} gave no first look within {timeout_s:g} s{stage}",
                "try again, or run doctor",
            ) from None
        if self._feed.snapshot is None:
            raise self._error or OperatorError("closed", f"the link to {self._link.target} was closed")
        self._make_view()
        return self._view

    async def complete(self, timeout_s: float, parts: frozenset[str] | None = None) -> View:
        """Wait until these parts (None: all) have been looked at once, or the time is up: what is unknown then, is so."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._link.fresh and self._awaited(parts):
                    self._arrived.clear()
                    await self._arrived.wait()
        self._make_view()
        return self._view

    def _awaited(self, parts: frozenset[str] | None) -> bool:
        pending = set(self._feed.snapshot.pending) if self._feed.snapshot is not None else set()
        return bool(pending if parts is None else pending & parts)

    async def call(self, method: str, params: Mapping[str, Any] | None = None, timeout_s: float = 20.0) -> Any:
        """One request to the agent.

        Raises OperatorError: the agent's own, `link-down` when there is no link, `link-lost` when
        it dropped before the answer, `timeout` after `timeout_s`.
        """
        rpc = self._talk.rpc
        if rpc is None:
            because = f": {self._link.error}" if self._link.error else ""
            raise OperatorError("link-down", f"no link to {self._link.target}{because}", "wait for it or press R")
        return await rpc.call(method, params, timeout_s)

    async def set_options(self, options: Options) -> None:
        """Aim the agent at other options (root, datasets, budget). Raises OperatorError."""
        await self.call("options", {"options": options.to_json()})
        if options.root != self._options.root:
            self._rates, self._alerts = rates.RateHistory(), AlertHistory()
        self._options = options
        self._dirty.set()

    async def _keep_connected(self) -> None:
        attempt = 0
        while True:
            attempt += 1
            first = self._feed.snapshot is None
            self._set_link(
                state=LinkState.CONNECTING if first else LinkState.RECONNECTING,
                attempt=attempt,
                next_try_at=None,
            )
            self._retry_now.clear()
            seen = self._feed.seen
            try:
                await self._talk.run(self._options, self._release)
                error = OperatorError("link-lost", "the agent on the container ended", "reconnecting")
            except OperatorError as failed:
                error = failed
            except Exception as failed:
                # A fault of ours, or of what came: told and tried again, for a link that ended in silence looks alive.
                self._tell_of("the link failed", failed)
                words = f"the link to {self._link.target} failed unexpectedly ({clean(repr(failed), 120)})"
                error = OperatorError("failed", words, "R tries again; run with --debug and report what it prints")
            was_live = self._feed.seen > 0
            if self._feed.seen > seen:
                attempt = 0  # this one was live: the next failure starts the backoff anew
            self._error = error
            state, again = after_failure(error, was_live)
            network = bool(getattr(error, "network", False))
            pause_s = backoff_s(attempt, random.random(), network) if again else None
            self._set_link(
                state=state,
                code=error.code,
                error=error.message,
                remedy=error.remedy,
                stage="",
                next_try_at=wall_s() + pause_s if pause_s is not None else None,
            )
            self._settled.set()
            self._arrived.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._retry_now.wait()

    # -- what the conversation tells (console.conversation.Listener) ------------

    def on_stage(self, stage: str) -> None:
        """What connecting is at right now, in a few words."""
        self._set_link(stage=stage)

    def on_trip(self, trip_s: float, skew_s: float) -> None:
        """An answer took so long, and the container's clock seems so far ahead of ours."""
        known_s, known_trip_s = self._link.skew_s, self._link.round_trip_s
        # The answer was made somewhere within the trip: a longer one tells no more unless it contradicts.
        if known_s is None or known_trip_s is None or trip_s <= known_trip_s or abs(skew_s - known_s) > trip_s:
            self._set_link(round_trip_s=trip_s, skew_s=skew_s)

    def on_heard(self) -> None:
        """The agent has said something."""
        self._look_at_the_clock()
        if not self._talk.doubted:
            self._set_link(last_seen_at=wall_s())

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """The snapshot as it is now: the link is live."""
        self._arrived.set()
        self._rates = rates.advance(self._rates, snapshot, steady_s())
        if self._link.state is not LinkState.LIVE:
            self._set_link(state=LinkState.LIVE, stage="", attempt=0, next_try_at=None, code="", error="", remedy="")
        self._settled.set()

    # -- the tasks --------------------------------------------------------------

    async def _watch(self) -> None:
        """Notice silence, and let the agent know that we are here."""
        pinged_s = steady_s()
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            self._dirty.set()
            self._look_at_the_clock()
            silent_s = self._talk.silent_s
            if silent_s >= STALE_AFTER_S and self._link.state is LinkState.LIVE:
                self._set_link(state=LinkState.STALE)
            if self._talk.doubted:
                continue  # that it was not heard is our sleep's doing: the question just asked decides
            if silent_s >= GIVE_UP_AFTER_S:
                self._talk.drop(f"nothing came from {self._link.target} for {silent_s:.0f} s")
            elif steady_s() - pinged_s >= PING_EVERY_S:
                pinged_s = steady_s()
                self._talk.ping()

    def _look_at_the_clock(self) -> None:
        """After a sleep nothing is fresh until the container has answered, and no pause is waited out.

        What waits for a person goes on waiting: a laptop may wake in another network, where somebody else answers.
        """
        now_s = steady_s()
        slept_s, self._awake_s = now_s - self._awake_s, now_s
        if slept_s < ASLEEP_S:
            return
        if self._link.next_try_at is not None:
            self._retry_now.set()
        if self._link.state in (LinkState.LIVE, LinkState.STALE):
            self._talk.doubted = True
            self._set_link(state=LinkState.STALE)
            if self._proving is not None:
                self._proving.cancel()
            self._proving = asyncio.create_task(self._prove(slept_s), name="controller-prove")

    async def _prove(self, slept_s: float) -> None:
        try:
            await self._talk.prove(WAKE_ANSWER_S)
        except OperatorError:
            self._retry_now.set()
            self._talk.drop(f"{self._link.target} did not answer after a sleep of {slept_s:.0f} s here")

    async def _publish(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            self._make_view()
            await asyncio.sleep(PUBLISH_EVERY_S)

    def _make_view(self) -> None:
        snapshot = self._feed.snapshot
        age_s = steady_s() - self._talk.heard_s if self._talk.heard_s is not None else None
        view = View(now=wall_s(), link=replace(self._link, age_s=age_s), options=self._options, snapshot=snapshot)
        if snapshot is not None:
            speeds = rates.rates(self._rates, snapshot)
            eta_s = rates.etas(snapshot, speeds)
            view = replace(view, rates=speeds, eta_s=eta_s, totals=rates.totals(snapshot, speeds, eta_s))
        self._alerts, alerts = judge(view, self._alerts, self._thresholds, steady_s())
        self._view = replace(view, alerts=alerts)
        for callback in list(self._subscribers):
            try:
                callback(self._view)
            except Exception as error:
                # One bad subscriber must not blind the others.
                self._tell_of("a subscriber of the controller failed", error)

    def _tell_of(self, message: str, error: Exception) -> None:
        asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})

    def _set_link(self, **changes: Any) -> None:
        was_fresh = self._link.fresh
        self._link = replace(self._link, **changes)
        self._dirty.set()
        if was_fresh and not self._link.fresh:
            # At once: the link may be back before the next view is due, and nobody would have been told of the gap.
            self._make_view()
