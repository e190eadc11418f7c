"""Dialogs: nothing typed ahead acts, Cancel is the default, the target stays frozen, outcomes are told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from textual.widgets import Button

from console.ports import Ask, Outcome, Progress, Proposal, Remark
from console.screens.act import ActDialog, Phase
from console.screens.budget import BudgetDialog
from console.screens.dialog import ARM_S, Dialog
from console.screens.hostkey import HostKeyDialog
from console.screens.main import MainScreen
from console.view import Level, LinkState
from remote.errors import OperatorError
from tests.support.book import TwoTargets
from tests.support.recorded import desk_of, live_link, snapshot_json, view_of
from tests.ui.driving import press, running, screen_text, until
from tests.ui.scenes import SCENES, settle
from widgets.stage_list import Stage, StageState


class Scripted:
    """Operations whose restart is a given proposal; `executed` keeps what was confirmed."""

    def __init__(self, ask: Ask = Ask.YES, outcome: Outcome | OperatorError | None = None) -> None:
        self.ask = ask
        self.outcome = outcome or Outcome(True, "running: pid 21877")
        self.executed: list[str] = []
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def restart(self, controller: Any, options: Any) -> Proposal:
        stages = (Stage("stop", "stop", "pid 911"), Stage("launch", "launch", "--token-budget 10M"))

        async def execute(choice: str, progress: Progress) -> Outcome:
            self.executed.append(choice)
            progress((Stage("stop", "stop", "pid 911", state=StageState.WORKING), stages[1]))
            await self.go_on.wait()
            if isinstance(self.outcome, OperatorError):
                raise self.outcome
            return self.outcome

        target = ("pid 911 on gpu-07",)
        return Proposal("restart on gpu-07", target, stages, (), self.ask, "kill pid 911 and restart", execute)


def with_operations(scripted: Scripted) -> Any:
    desk, _ = desk_of()
    desk.operations = scripted  # type: ignore[assignment]
    return desk


def test_half_a_second_passes_before_keys_count() -> None:
    assert Dialog.arm_s == ARM_S >= 0.5


async def test_keys_before_it_can_be_read_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = Scripted()
    monkeypatch.setattr(Dialog, "arm_s", 3600.0)
    async with running(desk=with_operations(scripted)) as (app, pilot, _):
        await pilot.press("r")
        await settle(pilot)
        dialog = app.screen
        assert isinstance(dialog, ActDialog) and not dialog.armed
        for key in ("y", "enter", "escape", "tab", "enter", "space"):
            await pilot.press(key)
        await pilot.click("#yes")
        assert app.screen is dialog
        assert scripted.executed == []


async def test_time_alone_arms_it_and_does_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = Scripted()
    monkeypatch.setattr(Dialog, "arm_s", 0.01)
    async with running(desk=with_operations(scripted)) as (app, pilot, _):
        await pilot.press("r")
        dialog = app.screen
        assert isinstance(dialog, ActDialog)
        await until(pilot, lambda: dialog.armed)
        assert app.screen is dialog
        assert scripted.executed == []


@pytest.mark.parametrize("key", ["enter", "escape"])
async def test_the_default_is_cancel(key: str) -> None:
    scripted = Scripted()
    async with running(desk=with_operations(scripted)) as (app, pilot, _):
        await press(pilot, "r")
        assert isinstance(app.focused, Button) and app.focused.id == "cancel"
        await press(pilot, key)
        assert isinstance(app.screen, MainScreen)
        assert scripted.executed == []


async def test_y_does_it_once_and_the_stages_are_seen() -> None:
    scripted = Scripted()
    scripted.go_on.clear()
    async with running(desk=with_operations(scripted)) as (app, pilot, _):
        await press(pilot, "r")
        await pilot.press("y")
        await until(pilot, lambda: "(working)" in screen_text(app))
        await pilot.press("y", "y")
        scripted.go_on.set()
        await until(pilot, lambda: "✓ running: pid 21877" in screen_text(app))
        assert scripted.executed == [""]
        await press(pilot, "y", "escape")
        assert isinstance(app.screen, MainScreen)
        assert scripted.executed == [""]


async def test_nothing_running_and_nothing_warned_counts_down_visibly() -> None:
    scripted = Scripted(Ask.COUNTDOWN)
    async with running(desk=with_operations(scripted)) as (app, pilot, _):
        await press(pilot, "r")
        dialog = app.screen
        assert isinstance(dialog, ActDialog)
        assert "in 5 s" in screen_text(app)
        for left in (4, 3, 2, 1):
            dialog.tick()
            await pilot.pause()
            assert f"in {left} s" in screen_text(app)
        assert scripted.executed == []
        dialog.tick()
        await until(pilot, lambda: dialog.phase is Phase.OVER)
        assert scripted.executed == [""]


async def test_escape_stops_the_countdown() -> None:
    scripted = Scripted(Ask.COUNTDOWN)
    async with running(desk=with_operations(scripted)) as (app, pilot, _):
        await press(pilot, "r")
        dialog = app.screen
        assert isinstance(dialog, ActDialog)
        dialog.tick()
        await press(pilot, "escape")
        assert isinstance(app.screen, MainScreen)
        for _ in range(5):
            dialog.tick()
        await settle(pilot)
        assert scripted.executed == []


@pytest.mark.parametrize(
    ("ask", "words"), [(Ask.NOTHING, "Nothing would change"), (Ask.BLOCKED, "It cannot be done now")]
)
async def test_what_cannot_or_need_not_be_done_cannot_be_confirmed(ask: Ask, words: str) -> None:
    scripted = Scripted(ask)
    async with running(desk=with_operations(scripted)) as (app, pilot, _):
        await press(pilot, "r")
        assert words in screen_text(app)
        assert not app.screen.query_one("#yes").display
        await press(pilot, "y")
        assert scripted.executed == []


async def test_killed_but_not_started_is_shouted_with_the_key() -> None:
    outcome = Outcome(False, "KILLED BUT NOT STARTED: nothing generates now", (Remark(Level.CRITICAL, "no room"),), "r")
    async with running(desk=with_operations(Scripted(outcome=outcome))) as (app, pilot, _):
        await press(pilot, "r", "y")
        await until(pilot, lambda: "KILLED BUT NOT STARTED" in screen_text(app))
        assert "Esc, then r" in screen_text(app)


async def test_an_error_is_one_line_in_the_dialog() -> None:
    error = OperatorError("lock-held", "the lock is held by pid 5", "wait for it")
    async with running(desk=with_operations(Scripted(outcome=error))) as (app, pilot, _):
        await press(pilot, "r", "y")
        await until(pilot, lambda: "the lock is held by pid 5" in screen_text(app))
        assert "wait for it" in screen_text(app)


async def test_the_target_is_the_one_of_the_key_press() -> None:
    desk, controller = desk_of()
    killed: list[Mapping[str, Any]] = []

    def kill(params: Mapping[str, Any]) -> Any:
        killed.append(params)
        return {"left": [], "respawned": None, "took_s": 0.1}

    controller.answers["kill_stray"] = kill
    frozen = snapshot_json("incident")["writers"][0]["identity"]
    async with running(desk=desk) as (app, pilot, _):
        await press(pilot, "K")
        moved = snapshot_json("incident")
        moved["writers"][0]["pid"] = 4242
        moved["writers"][0]["identity"]["pid"] = 4242
        controller.publish(view_of(moved))
        await settle(pilot)
        assert "pid 911" in screen_text(app)
        await pilot.press("y")
        await until(pilot, lambda: bool(killed))
        assert killed[0]["identity"] == frozen


async def test_several_processes_are_told_apart_before_one_is_killed() -> None:
    raw = snapshot_json("running")
    raw["writers"] = snapshot_json("incident")["writers"]
    desk, controller = desk_of("running")
    controller.publish(view_of(raw))
    async with running(desk=desk) as (app, pilot, _):
        await press(pilot, "K")
        text = screen_text(app)
        assert "pid 21877, our generator" in text and "pid 911, not ours" in text
        await press(pilot, "j", "enter")
        assert "y kill pid 911" in screen_text(app)


@pytest.mark.parametrize("size", [(80, 24), (60, 15)])
async def test_every_dialog_shows_its_keys(size: tuple[int, int]) -> None:
    for scene in SCENES:
        if scene.name in ("restart", "kill", "budget", "host-key-unknown"):
            desk, _ = scene.make()
            async with running(desk=desk, size=size) as (app, pilot, _):
                await press(pilot, *scene.keys)
                assert isinstance(app.screen, Dialog)
                assert "Esc" in screen_text(app), scene.name


async def test_what_a_dialog_has_no_room_for_is_a_key_away() -> None:
    desk, _ = next(scene for scene in SCENES if scene.name == "restart").make()
    async with running(desk=desk, size=(60, 15)) as (app, pilot, _):
        await press(pilot, "r")
        assert "Nothing on disk is removed." not in screen_text(app)
        await press(pilot, "pagedown", "pagedown")
        assert "Nothing on disk is removed." in screen_text(app)


async def test_a_budget_is_shown_then_used_here_or_applied_there() -> None:
    desk, controller = desk_of("running")
    controller.answers["control"] = {}
    async with running(desk=desk) as (app, pilot, _):
        await press(pilot, "b", "5", "M", "enter")
        text = screen_text(app)
        assert "u use for trace and restart" in text and "y apply to pid 21877 now" in text
        assert controller.methods == ["plan", "plan"]
        await press(pilot, "u")
        assert desk.options.token_budget.default == 5_000_000
        await press(pilot, "b", "2", "0", "M", "enter", "y")
        await until(pilot, lambda: not isinstance(app.screen, BudgetDialog))
        assert controller.asked[-1][0] == "control"
        assert controller.asked[-1][1]["token_budget"] == "20M"


@pytest.mark.parametrize("typed", ["x", "-1", "5MM", "B1=", "10M,5M"])
async def test_a_wrong_budget_is_refused_in_place(typed: str) -> None:
    async with running("running") as (app, pilot, controller):
        await press(pilot, "b")
        app.screen.query_one("#budget").value = typed  # type: ignore[attr-defined]
        await press(pilot, "enter")
        assert isinstance(app.screen, BudgetDialog)
        assert "u use" not in screen_text(app)
        assert controller.asked == []


async def test_an_unknown_key_is_asked_once_and_pinned_only_on_yes() -> None:
    scene = next(scene for scene in SCENES if scene.name == "host-key-unknown")
    desk, controller = scene.make()
    book = TwoTargets(controller)
    desk.targets = book
    async with running(desk=desk) as (app, pilot, _):
        await until(pilot, lambda: isinstance(app.screen, HostKeyDialog))
        app.screen.arm()  # type: ignore[attr-defined]
        await press(pilot, "escape")
        controller.publish(controller.view)
        await settle(pilot)
        assert isinstance(app.screen, MainScreen)
        assert book.trusted == []
        await press(pilot, "R")
        controller.publish(controller.view)
        await until(pilot, lambda: isinstance(app.screen, HostKeyDialog))
        app.screen.arm()  # type: ignore[attr-defined]
        await press(pilot, "y")
        await until(pilot, lambda: book.trusted == [controller])


async def test_the_first_snapshot_takes_the_place_of_the_waiting_page() -> None:
    desk, controller = desk_of(None, link=live_link())
    async with running(desk=desk) as (app, pilot, _):
        assert "waiting for its first look" in screen_text(app)
        controller.publish(view_of(snapshot_json("incident")))
        await settle(pilot)
        assert "OpenCodeInstruct" in screen_text(app)
        assert controller.view.link.state is LinkState.LIVE
