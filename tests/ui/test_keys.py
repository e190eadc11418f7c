"""Every key of the table does what its row says; none of them acts where it must not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from console import keys
from console.app import ConsoleApp
from console.keys import Key, Needs
from console.screens.act import ActDialog
from console.screens.alerts import AlertsScreen
from console.screens.asking import AskText
from console.screens.base import ConsoleScreen
from console.screens.budget import BudgetDialog
from console.screens.detail import DetailScreen
from console.screens.engine import EngineScreen
from console.screens.help import HelpScreen
from console.screens.log import LogScreen
from console.screens.main import MainScreen
from console.screens.schema import SchemaScreen
from console.screens.targets import TargetsScreen
from console.screens.trace import TraceScreen
from console.view import Link, LinkState
from remote.options import Options
from tests.support.book import TwoTargets
from tests.support.recorded import FakeController, desk_of, snapshot_json, stale_link, view_of
from tests.ui.driving import press, running, screen_text, until
from tests.ui.scenes import settle
from widgets.keyed_table import KeyedTable
from widgets.log_view import Level, LogView

WAY = {"main": (), "trace": ("d",), "detail": ("j", "enter"), "log": ("l",), "alerts": ("a",), "targets": ("c",)}
"""How to get from the main screen to the screen of each group of keys."""

PLACES = {place: rows for place, rows in keys.SCREENS.items() if place in WAY}

Check = Callable[[ConsoleApp, FakeController], bool]


def _on(kind: type) -> Check:
    return lambda app, controller: isinstance(app.screen, kind)


def _log(app: ConsoleApp) -> LogView:
    return app.screen.query_one(LogView)


def _said(words: str) -> Check:
    return lambda app, controller: any(words in note.message for note in app._notifications)


PROMISES: dict[str, Check] = {
    "restart": lambda app, controller: isinstance(app.screen, ActDialog) and "kill pid 911" in screen_text(app),
    "kill": lambda app, controller: isinstance(app.screen, ActDialog) and "pid 911" in screen_text(app),
    "trace": _on(TraceScreen),
    "budget": _on(BudgetDialog),
    "pause": _said("no generator of ours runs here"),
    "tokenize": lambda app, controller: isinstance(app.screen, ActDialog) and "tokenize on" in screen_text(app),
    "detail": _on(DetailScreen),
    "schema": _on(SchemaScreen),
    "log": _on(LogScreen),
    "engine": _on(EngineScreen),
    "alerts": _on(AlertsScreen),
    "targets": _on(TargetsScreen),
    "order": _said("what is worked on first"),
    "copy": lambda app, controller: "Glaive" in app.clipboard and "10.45 M" in app.clipboard,
    "trace_budget": _on(BudgetDialog),
    "trace_save": _said("saved as"),
    "trace_copy": lambda app, controller: "sample-count skip bypassed" in app.clipboard,
    "trace_again": lambda app, controller: controller.methods.count("plan") == 2,
    "trace_restart": _on(ActDialog),
    "detail_next": lambda app, controller: controller.asked[-1][1]["row"] == 2,
    "detail_previous": lambda app, controller: controller.asked[-1][1]["row"] == 2912,
    "detail_copy": lambda app, controller: "raw_responses.jsonl" in app.clipboard,
    "log_search": lambda app, controller: isinstance(app.focused, Input) and app.focused.display,
    "log_next": lambda app, controller: _log(app).following,
    "log_previous": lambda app, controller: _log(app).following,
    "log_follow": lambda app, controller: not _log(app).following,
    "log_level": lambda app, controller: (
        _log(app).level is Level.WARNINGS and "warnings and errors" in screen_text(app)
    ),
    "log_copy": lambda app, controller: "answers" in app.clipboard,
    "ack": lambda app, controller: controller.methods[-1] == "ack" and bool(controller.asked[-1][1]["key"]),
    "note": _on(AskText),
    "hold": _on(AskText),
    "target_switch": lambda app, controller: isinstance(app.screen, MainScreen),
    "target_add": _on(AskText),
}
"""What holds after a key was pressed once on its screen, over the incident."""


def all_rows() -> list[tuple[str, Key]]:
    return [(place, key) for place, rows in PLACES.items() for key in rows]


def test_every_key_has_a_promise() -> None:
    assert {key.id for _, key in all_rows()} == set(PROMISES)


async def back_to_main(app: ConsoleApp, pilot: Pilot[int]) -> None:
    """Close whatever is open; no key that is tested is used for it."""
    while not isinstance(app.screen, MainScreen):
        app.screen.dismiss()
        await settle(pilot)


@pytest.mark.parametrize("place", PLACES)
async def test_each_key_keeps_its_promise(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TMUX", raising=False)
    desk, controller = desk_of()
    desk.targets = TwoTargets(controller)
    controller.answers.update(ack={}, note={}, hold={})
    async with running(desk=desk) as (app, pilot, _):
        for key in PLACES[place]:
            app.clear_notifications()
            app.copy_to_clipboard("")
            controller.asked.clear()
            await press(pilot, *WAY[place])
            await press(pilot, key.keys.split(",")[0])
            assert PROMISES[key.id](app, controller), f"{key.id}\n{screen_text(app)}"
            await back_to_main(app, pilot)
            app.screen.query_one(KeyedTable).point_at("B1_glaive")


async def test_keys_that_work_everywhere() -> None:
    async with running() as (app, pilot, controller):
        await press(pilot, "question_mark")
        assert isinstance(app.screen, HelpScreen)
        await press(pilot, "escape", "R")
        assert controller.reconnects == 1
        before = app.theme
        await press(pilot, "T")
        assert app.theme != before
        await press(pilot, "ctrl+p")
        await until(pilot, lambda: "drain, now or force" in screen_text(app))
        await press(pilot, "escape")
        await pilot.press("q")
    assert app.return_code == 0
    assert controller.closed.is_set()


async def test_moving_moves_the_cursor_and_nothing_else() -> None:
    async with running() as (app, pilot, controller):
        table = app.screen.query_one(KeyedTable)
        for key, row in (("j", 1), ("down", 2), ("k", 1), ("up", 0), ("up", 0)):
            await press(pilot, key)
            assert table.cursor_row == row
        assert controller.asked == []


def test_no_key_is_bound_twice_where_it_would_be_ambiguous() -> None:
    for place, rows in PLACES.items():
        names = [name for key in (*rows, keys.BACK, *keys.EVERYWHERE) for name in key.keys.split(",")]
        assert len(names) == len(set(names)), place


def test_nothing_destructive_is_near_a_habit() -> None:
    for _, key in all_rows():
        if key.destructive:
            names = set(key.keys.split(","))
            assert not any(name.startswith("ctrl+") for name in names)
            assert not names & {"j", "k", "enter", "escape", "backspace", "delete", "space", "tab", "up", "down"}
            assert key.needs is Needs.CHANGE


async def test_read_only_keys_do_nothing_and_say_so() -> None:
    async with running("running", options=Options(read_only=True)) as (app, pilot, controller):
        for place, rows in PLACES.items():
            changing = [key for key in rows if key.needs is Needs.CHANGE]
            if not changing:
                continue
            await press(pilot, *WAY[place])
            screen, asked = app.screen, len(controller.asked)
            assert isinstance(screen, ConsoleScreen)
            works = {hint.action: hint.works for hint in screen.hints(controller.view)}
            for key in changing:
                await press(pilot, key.keys.split(",")[0])
                assert app.screen is screen, key.id
                assert not works[key.action], key.id
            assert len(controller.asked) == asked
            await press(pilot, "question_mark")
            marked = [line for line in screen_text(app).split("\n") if "✗ not now" in line]
            assert len(marked) == len(changing)
            assert all(any(key.help in line for line in marked) for key in changing)
            await back_to_main(app, pilot)


async def test_without_a_link_what_needs_one_does_nothing() -> None:
    desk, controller = desk_of("running")
    controller.publish(view_of(snapshot_json("running"), link=stale_link(controller.view.now)))
    async with running(desk=desk) as (app, pilot, _):
        for key in keys.MAIN:
            if key.needs in (Needs.LINK, Needs.CHANGE):
                await press(pilot, key.keys)
                assert isinstance(app.screen, MainScreen), key.id
        assert controller.asked == []
        assert "STALE 42 s" in screen_text(app)
        await press(pilot, "R")
        assert controller.reconnects == 1


async def test_before_the_first_look_there_is_nothing_to_open() -> None:
    desk, controller = desk_of(None, link=Link(LinkState.CONNECTING, target="gpu-07"))
    async with running(desk=desk) as (app, pilot, _):
        for key in keys.MAIN:
            if key.needs is not Needs.NOTHING:
                await press(pilot, key.keys)
                assert isinstance(app.screen, MainScreen), key.id
        assert controller.asked == []
        works = {hint.action for hint in app.screen.hints(desk.view) if hint.works}
        assert works == {"targets", "help", "leave"}
        controller.publish(view_of(snapshot_json("running")))
        await press(pilot, "e")
        assert isinstance(app.screen, EngineScreen)


async def test_a_click_on_the_key_bar_is_the_key() -> None:
    async with running() as (app, pilot, _):
        bar = app.screen.query_one("#keys")
        line = bar.render().plain.split("\n")[0]
        await pilot.click("#keys", offset=(1 + line.index("d trace"), 0))
        await settle(pilot)
        assert isinstance(app.screen, TraceScreen)
        await pilot.click("#keys", offset=(1 + app.screen.query_one("#keys").render().plain.index("Esc"), 0))
        await settle(pilot)
        assert isinstance(app.screen, MainScreen)


async def test_the_palette_runs_what_it_names() -> None:
    async with running() as (app, pilot, _):
        await press(pilot, "ctrl+p", *"dry run")
        await until(pilot, lambda: "Dry run" in screen_text(app))
        await press(pilot, "enter")
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))
