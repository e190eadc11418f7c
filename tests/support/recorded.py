"""Recorded snapshots as views: the incident and its neighbours, at a fixed clock, without a container.

`tests/ui/snapshots/*.json` hold what an agent sent (the snapshot, and its answers to `plan`,
`dataset`, …). A `FakeController` serves them with the shape of the real one; rates and alerts
are made by the same functions as in the real one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from console import rates
from console.alerts import AlertHistory, judge
from console.model import Snapshot
from console.read_snapshot import read_snapshot
from console.thresholds import Thresholds
from console.view import Link, LinkState, View
from remote.errors import OperatorError
from remote.options import Options

FOLDER = Path(__file__).parent.parent / "ui" / "snapshots"
SKEW_S = 0.2


def recording(name: str) -> dict[str, Any]:
    """A recording: `{"snapshot": …, "answers": {METHOD: …}}`."""
    value: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return value


def live_link(target: str = "root@10.0.0.7:22") -> Link:
    """A link as it is when all is well."""
    return Link(LinkState.LIVE, target=target, age_s=0.4, skew_s=SKEW_S, round_trip_s=0.02)


def view_of(
    raw: Mapping[str, Any] | None, options: Options, link: Link, *, earlier: Mapping[str, Any] | None = None
) -> View:
    """A view as the controller makes it. `earlier` is a snapshot from before, to measure rates from."""
    snapshot: Snapshot | None = None if raw is None else read_snapshot(raw)
    now = (snapshot.at if snapshot is not None else 1_796_094_764.0) - SKEW_S
    view = View(now=now, link=link, options=options, snapshot=snapshot)
    if snapshot is not None:
        history = rates.RateHistory()
        if earlier is not None:
            before = read_snapshot(earlier)
            history = rates.advance(history, before, before.at)
        history = rates.advance(history, snapshot, snapshot.at)
        speeds = rates.rates(history, snapshot)
        eta_s = rates.etas(snapshot, speeds)
        view = replace(view, rates=speeds, eta_s=eta_s, totals=rates.totals(snapshot, speeds, eta_s))
    _, alerts = judge(view, AlertHistory(), Thresholds(), now)
    return replace(view, alerts=alerts)


class FakeController:
    """A controller that serves one view until `publish`; `asked` keeps every call."""

    def __init__(self, view: View, answers: Mapping[str, Any] | None = None) -> None:
        self._view = view
        self.answers = dict(answers or {})
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.reconnects = 0
        self.closed = asyncio.Event()
        self._callbacks: list[Callable[[View], None]] = []

    @property
    def view(self) -> View:
        return self._view

    def publish(self, view: View) -> None:
        """Another view, as if the container had spoken."""
        self._view = view
        for callback in list(self._callbacks):
            callback(view)

    def subscribe(self, callback: Callable[[View], None]) -> Callable[[], None]:
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    async def call(self, method: str, params: Mapping[str, Any] | None = None, timeout_s: float = 20.0) -> Any:
        self.asked.append((method, dict(params or {})))
        if method not in self.answers:
            raise OperatorError("unknown-method", f"this recording has no answer to {method}")
        answer = self.answers[method]
        if isinstance(answer, OperatorError):
            raise answer
        return answer(params or {}) if callable(answer) else answer

    def reconnect_now(self) -> None:
        self.reconnects += 1

    async def close(self) -> None:
        self.closed.set()
