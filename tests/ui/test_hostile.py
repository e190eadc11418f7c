"""Hostile text on every screen: shown as text, columns aligned, no control character in what is drawn."""

from __future__ import annotations

import unicodedata

import pytest
from rich.cells import cell_len

from tests.support.recorded import desk_of, snapshot_json, view_of
from tests.ui.driving import press, running, screen_lines, screen_text
from tests.ui.hostile import LONG, NASTY, poisoned
from tests.ui.scenes import settle
from widgets.keyed_table import KeyedTable

WAYS = {
    "main": (),
    "trace": ("d",),
    "kill": ("K",),
    "restart": ("r",),
    "detail": ("j", "enter"),
    "row": ("j", "enter", "G"),
    "schema": ("s",),
    "log": ("l",),
    "engine": ("e",),
    "alerts": ("a",),
    "budget": ("b", "5", "M", "enter"),
    "help": ("question_mark",),
}


def hostile_desk(text: str):
    desk, controller = desk_of("incident")
    raw = snapshot_json("incident")
    raw["log"] = {"size": 10, "lines": ["x"]}
    raw["audit"] = [{"at": raw["at"], "who": "x", "action": "x", "outcome": "x", "detail": "x"}]
    raw["problems"] = ["x"]
    raw["hold"] = {"by": "x", "reason": "x", "at": raw["at"], "until": None}
    raw["datasets"]["B2_opencodeinstruct"]["schema"]["problems"] = [
        {"code": "x", "count": 3, "line": 1, "offset": 0, "example": "x"}
    ]
    raw["datasets"]["B2_opencodeinstruct"]["finish_reasons"] = {text[:5000]: 3}
    controller.publish(view_of(poisoned(raw, text)))
    served = controller.answers
    for method in ("dataset", "plan"):
        controller.answers[method] = lambda params, serve=served[method]: poisoned(serve(params), text[:5000])
    controller.answers["row"] = poisoned(served["row"], text[:5000])
    controller.answers["preflight"] = poisoned(served["preflight"], text[:5000])
    controller.answers["log"] = {"start": 0, "end": 10, "size": 10, "lines": [text, f"ERROR {text}"]}
    return desk


@pytest.mark.parametrize("size", [(120, 36), (45, 20)])
async def test_nothing_raw_is_drawn_anywhere(size: tuple[int, int]) -> None:
    seen = ""
    async with running(desk=hostile_desk(NASTY), size=size) as (app, pilot, _):
        for way in WAYS.values():
            await press(pilot, *way)
            lines = screen_lines(app)
            assert len(lines) == size[1]
            for line in lines:
                assert cell_len(line) == size[0], line
                bad = [char for char in line if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")]
                assert not bad, (way, bad)
                assert not set(line) & set("\u202e\u2066\u200d")
            seen += screen_text(app)
            while len(app.screen_stack) > 1:
                app.screen.dismiss()
                await settle(pilot)
            app.screen.query_one(KeyedTable).point_at("B1_glaive")
    assert "owned" in seen
    assert "[/foo]" in seen


async def test_a_line_of_a_megabyte_is_cut_and_costs_nothing_much() -> None:
    async with running(desk=hostile_desk(LONG), size=(80, 24)) as (app, pilot, _):
        for way in (("l",), ("escape", "a"), ("escape", "s")):
            await press(pilot, *way)
            assert all(cell_len(line) == 80 for line in screen_lines(app))
