"""The controller with a real agent: frozen, killed and told nothing, it says so and comes back by itself."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from console import controller as controller_module
from console.controller import Controller
from console.local import connect_local
from console.one_shot import open_controller
from console.view import LinkState, View
from console.watching import wait_for
from remote.layout import RESPONSES
from remote.options import Budget, Options
from tests.support.agent import append_line
from tests.support.tree import SMALL_BUDGET, make_tree, response

LIMIT_S = 30.0


def options_for(root: Path) -> Options:
    return Options(root=str(root), token_budget=Budget(SMALL_BUDGET), engine_url="http://127.0.0.1:9")


async def seen(controller: Controller, condition: Callable[[View], bool]) -> View:
    view = await wait_for(controller, condition, LIMIT_S)
    assert view is not None, controller.view.link
    return view


def agent_pid(view: View) -> int:
    assert view.snapshot is not None and view.snapshot.agent.pid is not None
    return view.snapshot.agent.pid


async def test_a_frozen_agent_makes_the_link_stale_and_a_fresh_one_takes_over(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_module, "STALE_AFTER_S", 3.0)
    monkeypatch.setattr(controller_module, "GIVE_UP_AFTER_S", 5.0)
    controller = Controller("local", options_for(tree), partial(connect_local))
    await controller.start()
    try:
        live = await seen(controller, lambda view: view.link.fresh and not view.snapshot.pending)
        frozen = agent_pid(live)
        os.kill(frozen, signal.SIGSTOP)
        stale = await seen(controller, lambda view: view.link.state is LinkState.STALE)
        assert stale.snapshot is not None and stale.snapshot.datasets[0].responses == 100
        assert stale.link.age_s is not None and stale.link.age_s >= 3.0
        back = await seen(controller, lambda view: view.link.fresh and agent_pid(view) != frozen)
        assert back.snapshot is not None and back.snapshot.datasets[0].responses == 100
    finally:
        await controller.close()


async def test_a_killed_agent_is_replaced_and_its_successor_sees_what_came_meanwhile(tree: Path) -> None:
    controller = Controller("local", options_for(tree), partial(connect_local))
    await controller.start()
    try:
        first = agent_pid(await seen(controller, lambda view: view.link.fresh))
        os.kill(first, signal.SIGKILL)
        await seen(controller, lambda view: view.link.state is LinkState.RECONNECTING)
        append_line(tree / "B4_mixturethoughts" / RESPONSES, response("B4-000001", 40))
        view = await seen(
            controller,
            lambda view: view.link.fresh and agent_pid(view) != first and bool(view.snapshot.datasets[3].responses),
        )
        assert view.snapshot is not None and view.snapshot.datasets[3].tokens == 40
    finally:
        await controller.close()


async def test_an_alert_comes_of_what_really_happens(tree: Path) -> None:
    async with open_controller("local", options_for(tree), partial(connect_local), timeout_s=LIMIT_S) as controller:
        view = controller.view
        assert view.link.skew_s == pytest.approx(0, abs=1), "it is this machine's own clock"
        assert {alert.code for alert in view.alerts} >= {"engine-unhealthy"}
        answers = tree / "B4_mixturethoughts" / RESPONSES
        append_line(answers, response("B4-000001", 40))
        append_line(answers, {"sample_id": "B4-000002", "output_ids": "AAEC", "finish_reason": "stop"})
        view = await seen(controller, lambda view: any(alert.code == "unusable" for alert in view.alerts))
        assert view.snapshot is not None and view.snapshot.datasets[3].schema.unusable == 1
        assert view.snapshot.datasets[3].growing


async def test_pointing_at_another_root_shows_that_root(tree: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    make_tree(other, "end")
    async with open_controller("local", options_for(tree), partial(connect_local), timeout_s=LIMIT_S) as controller:
        await controller.set_options(options_for(other))
        view = await seen(controller, lambda view: view.snapshot.root == str(other) and not view.snapshot.pending)
        assert view.snapshot is not None and view.snapshot.datasets[2].responses > 2
