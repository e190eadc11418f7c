"""What an operator does to a screen survives what the container sends: cursor, order, scroll, search."""

from __future__ import annotations

from typing import Any

from console.desk import Desk
from tests.support.recorded import FakeController, desk_of, snapshot_json, view_of
from tests.ui.driving import press, running, screen_lines, screen_text, until
from tests.ui.scenes import settle
from widgets.keyed_table import KeyedTable
from widgets.log_view import LogView


def grown(extra: int, **states: str) -> dict[str, Any]:
    raw = snapshot_json("running")
    raw["seq"] += extra
    raw["at"] += extra
    for row in raw["datasets"].values():
        row["tokens"] = (row["tokens"] or 0) + 1000 * extra
    for folder, state in states.items():
        raw["datasets"][folder]["state"] = state
    return raw


async def test_cursor_and_order_stay_when_figures_and_rows_change() -> None:
    async with running("running") as (app, pilot, controller):
        table = app.screen.query_one(KeyedTable)
        await press(pilot, "j", "j", "j")
        assert table.row_key == "B4_mixturethoughts"
        for extra in range(1, 4):
            controller.publish(view_of(grown(extra)))
            await settle(pilot)
            assert table.row_key == "B4_mixturethoughts"
        assert "216 k" in screen_text(app)
        await press(pilot, "o")
        assert table.row_key == "B4_mixturethoughts"
        assert table.cursor_row == 0
        controller.publish(view_of(grown(5, B8_sweagent="running", B4_mixturethoughts="budget-met")))
        await settle(pilot)
        assert table.row_key == "B4_mixturethoughts"
        assert table.cursor_row > 0
        raw = grown(6)
        raw["datasets"]["A1_extra"] = {**raw["datasets"]["B5_openthoughts"], "id": "A1", "title": "Extra", "order": -1}
        controller.publish(view_of(raw))
        await settle(pilot)
        assert table.row_key == "B4_mixturethoughts"


async def test_a_resize_keeps_the_cursor_though_the_columns_change() -> None:
    async with running("running") as (app, pilot, _):
        table = app.screen.query_one(KeyedTable)
        await press(pilot, "j", "j")
        await pilot.resize_terminal(60, 20)
        await settle(pilot)
        assert table.row_key == "B3_magicoder"


async def test_only_what_changed_is_drawn_again() -> None:
    async with running("running") as (app, pilot, controller):
        table = app.screen.query_one(KeyedTable)
        drawn: list[int] = []
        real = table.render_line

        def spy(y: int) -> Any:
            drawn.append(y)
            return real(y)

        table.render_line = spy  # type: ignore[method-assign]
        controller.publish(view_of(snapshot_json("running")))
        await settle(pilot)
        assert drawn == []
        raw = snapshot_json("running")
        raw["datasets"]["B4_mixturethoughts"]["prompts"] = 4501
        controller.publish(view_of(raw))
        await settle(pilot)
        assert drawn == [4]


async def test_a_page_that_is_read_does_not_jump() -> None:
    async with running("incident", (80, 24)) as (app, pilot, controller):
        await press(pilot, "d", "pagedown")
        scroll = app.screen.query_one("#scroll")
        before = scroll.scroll_offset
        assert before.y > 0
        controller.publish(view_of(snapshot_json("incident")))
        await settle(pilot)
        assert scroll.scroll_offset == before


class GrowingLog:
    """A log that grows: serves what is asked for as the agent does."""

    def __init__(self, lines: int) -> None:
        self.lines = [f"03:{n // 60 % 60:02d}:{n % 60:02d}  line {n}" for n in range(lines)]

    def __call__(self, params: dict[str, Any]) -> dict[str, Any]:
        size = len(self.lines)
        if "after" in params:
            start, end = params["after"], size
        elif "before" in params:
            end = params["before"]
            start = max(0, end - 100)
        else:
            start, end = max(0, size - 100), size
        return {"start": start, "end": end, "size": size, "lines": self.lines[start:end]}


async def log_screen() -> tuple[Desk, FakeController, GrowingLog]:
    desk, controller = desk_of("running")
    log = GrowingLog(1000)
    controller.answers["log"] = log
    return desk, controller, log


def logged(size: int) -> dict[str, Any]:
    raw = snapshot_json("running")
    raw["log"]["size"] = size
    return raw


async def test_the_log_follows_pauses_counts_and_goes_back() -> None:
    desk, controller, log = await log_screen()
    async with running(desk=desk, size=(80, 24)) as (app, pilot, _):
        await press(pilot, "l")
        view = app.screen.query_one(LogView)
        assert "● following" in screen_text(app)
        assert "line 999" in screen_text(app)
        await press(pilot, "k")
        assert "PAUSED +0" in screen_text(app)
        top = screen_lines(app)[2]
        log.lines += [f"03:20:00  line {n}" for n in range(1000, 2204)]
        controller.publish(view_of(logged(2204)))
        await until(pilot, lambda: "PAUSED +1,204" in screen_text(app))
        assert screen_lines(app)[2] == top
        await press(pilot, "f")
        assert "● following" in screen_text(app) and "line 2203" in screen_text(app)
        await press(pilot, "g")
        await until(pilot, lambda: view.line_count > 1304)
        assert "PAUSED" in screen_text(app)


async def test_the_log_is_searched_and_wrong_searches_are_refused() -> None:
    desk, _, _ = await log_screen()
    async with running(desk=desk, size=(80, 24)) as (app, pilot, _):
        await press(pilot, "l", "slash")
        app.screen.query_one("#search").value = "line 9.7$"  # type: ignore[attr-defined]
        await press(pilot, "enter")
        assert "/line 9.7$/ 10 of 10 lines" in screen_text(app)
        assert "line 997" in screen_text(app)
        await press(pilot, "N")
        assert "9 of 10" in screen_text(app)
        await press(pilot, "n", "n")
        assert "1 of 10" in screen_text(app) and "line 907" in screen_text(app)
        for wrong, words in (("(", "no regular expression"), ("(a+)+$", "may never end")):
            await press(pilot, "slash")
            app.screen.query_one("#search").value = wrong  # type: ignore[attr-defined]
            await pilot.press("enter")
            await until(pilot, lambda words=words: any(words in note.message for note in app._notifications))
            await press(pilot, "escape")


async def test_a_hundred_thousand_lines_are_drawn_as_cheaply_as_ten() -> None:
    desk, _, log = await log_screen()
    async with running(desk=desk, size=(80, 24)) as (app, pilot, _):
        await press(pilot, "l")
        view = app.screen.query_one(LogView)
        view.replace(f"12:00:00  line {number}" for number in range(100_000))
        drawn: list[int] = []
        real = view.render_line

        def spy(y: int) -> Any:
            drawn.append(y)
            return real(y)

        view.render_line = spy  # type: ignore[method-assign]
        view.refresh()
        await settle(pilot)
        assert 0 < len(drawn) <= 3 * 24
        assert view.line_count == 100_000
        assert len(log.lines) == 1000
