"""Recorded snapshots as views: the incident and its neighbours, at a fixed clock, without a container.

`tests/ui/snapshots/demo/STATE.json` is what the demo's container sent, recorded by `make record`: its
options, its snapshots of some minutes, its answers. `tests/ui/snapshots/STATE.json` and `answers.json` have
the same shape, and are written by hand: the incident at its full size, and states that a demo cannot be
in. A `FakeController` serves them with the shape of the real one; rates and alerts are made by the
real functions.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from console import rates
from console.actions import Actions
from console.alerts import AlertHistory, judge
from console.desk import Desk
from console.observed import Observed, observe
from console.ports import Targets
from console.read_snapshot import read_snapshot
from console.thresholds import Thresholds
from console.view import Link, LinkState, View
from remote.errors import OperatorError
from remote.options import Options

FOLDER = Path(__file__).parent.parent / "ui" / "snapshots"
SKEW_S = 0.2
STATES = ("incident", "running", "empty", "ten-thousand-bad")


@cache
def _text(name: str) -> str:
    return (FOLDER / f"{name}.json").read_text(encoding="utf-8")


def snapshot_json(name: str) -> dict[str, Any]:
    """A recorded snapshot, anew each time, to be changed at will."""
    value: dict[str, Any] = json.loads(_text(name))
    return value


def answers() -> dict[str, Any]:
    """What the agent answered, as `FakeController` serves it."""
    raw: dict[str, Any] = json.loads(_text("answers"))
    plans, datasets = raw["plan"], raw["dataset"]

    def plan(params: Mapping[str, Any]) -> Any:
        return plans[str(params["options"]["token_budget"]["default"])]

    def dataset(params: Mapping[str, Any]) -> Any:
        return datasets.get(params["folder"], {"files": [], "lengths": None, "meta": None, "left_out": []})

    def log(params: Mapping[str, Any]) -> Any:
        whole: dict[str, Any] = raw["log"]
        later = "after" in params or "before" in params
        return {**whole, "start": whole["end"], "lines": []} if later else whole

    return {**raw, "plan": plan, "dataset": dataset, "log": log}


def demo_answers(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The recorded answers of a demo state, as `FakeController` serves them."""
    recorded: Mapping[str, Any] = raw["answers"]

    def chosen(answer: Any) -> Any:
        if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
            raise OperatorError.from_json(answer["error"])
        return answer

    def plan(params: Mapping[str, Any]) -> Any:
        budget = str(params["options"]["token_budget"]["default"])
        return chosen(recorded["plan"][f"{budget} restart" if "stopping" in params else budget])

    def of_folder(method: str) -> Callable[[Mapping[str, Any]], Any]:
        return lambda params: chosen(recorded[method][params["folder"]])

    def log(params: Mapping[str, Any]) -> Any:
        whole: dict[str, Any] = chosen(recorded["log"])
        return {**whole, "start": whole["end"], "lines": []} if {"after", "before"} & params.keys() else whole

    return {
        "plan": plan,
        "dataset": of_folder("dataset"),
        "row": of_folder("row"),
        "log": log,
        **{name: lambda params, name=name: chosen(recorded[name]) for name in ("preflight", "history", "audit")},
    }


def live_link(target: str = "root@10.0.0.7:22") -> Link:
    """A link as it is when all is well."""
    return Link(LinkState.LIVE, target=target, age_s=0.4, skew_s=SKEW_S, round_trip_s=0.02)


def stale_link(now: float, target: str = "root@10.0.0.7:22") -> Link:
    """A link that was lost 42 s ago and is tried for the fourth time in 3 s."""
    return Link(
        LinkState.RECONNECTING,
        target=target,
        age_s=42.0,
        skew_s=SKEW_S,
        attempt=4,
        next_try_at=now + 3.0,
        last_seen_at=now - 42.0,
        code="timeout",
        error="the connection attempt timed out",
        remedy="check the network",
    )


def view_of(
    raw: Mapping[str, Any] | None,
    options: Options | None = None,
    link: Link | None = None,
    history: rates.RateHistory | None = None,
) -> View:
    """A view as the controller makes it at the moment of the snapshot; `history` is what it saw before."""
    snapshot = None if raw is None else read_snapshot(raw)
    now = (snapshot.at if snapshot is not None else 1_764_558_764.0) - SKEW_S
    view = View(now=now, link=link or live_link(), options=options or Options(), snapshot=snapshot)
    if snapshot is not None:
        history = rates.advance(history or rates.RateHistory(), snapshot, snapshot.at)
        speeds = rates.rates(history, snapshot)
        eta_s = rates.etas(snapshot, speeds)
        view = replace(view, rates=speeds, eta_s=eta_s, totals=rates.totals(snapshot, speeds, eta_s))
    _, alerts = judge(view, AlertHistory(), Thresholds(), now)
    return replace(view, alerts=alerts)


class FakeController:
    """A controller that serves one view until `publish`; `asked` keeps every call."""

    def __init__(self, view: View, served: Mapping[str, Any] | None = None) -> None:
        self._view = view
        self.answers = dict(answers() if served is None else served)
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.reconnects = 0
        self.closed = asyncio.Event()
        self._callbacks: list[Callable[[View], None]] = []

    @property
    def view(self) -> View:
        return self._view

    @property
    def methods(self) -> list[str]:
        """The methods that were called, in order."""
        return [method for method, _ in self.asked]

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
        answer = answer(params or {}) if callable(answer) else answer
        return await answer if asyncio.iscoroutine(answer) else answer

    def reconnect_now(self) -> None:
        self.reconnects += 1

    async def close(self) -> None:
        self.closed.set()


def desk_of(
    state: str | None = "incident",
    options: Options | None = None,
    link: Link | None = None,
    targets: Targets | None = None,
) -> tuple[Desk, FakeController]:
    """A desk over a recording, with the real actions, and its controller."""
    controller = FakeController(view_of(snapshot_json(state) if state else None, options, link))
    return Desk(controller, Actions(), targets, clock=lambda: controller.view.now), controller


def demo_desk(state: str, targets: Targets | None = None) -> tuple[Desk, FakeController]:
    """A desk over a state of the demo's container, that has looked at it for the minutes recorded before."""
    raw = snapshot_json(f"demo/{state}")
    options = Options.from_json(raw["options"])
    history, observed = rates.RateHistory(), Observed()
    for earlier in raw["earlier"]:
        history = rates.advance(history, read_snapshot(earlier), earlier["at"])
        observed = observe(observed, view_of(earlier, options, history=history))
    controller = FakeController(view_of(raw["snapshot"], options, history=history), demo_answers(raw))
    return Desk(controller, Actions(), targets, clock=lambda: controller.view.now, observed=observed), controller
