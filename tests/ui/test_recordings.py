"""Recordings tell of no machine, can be read whole, and are served as the container answered."""

from __future__ import annotations

import getpass
import json
import re
import socket

import pytest

from console.present_process import flags
from console.read_snapshot import read_snapshot
from remote.errors import OperatorError
from tests.support.recorded import FOLDER, demo_desk, snapshot_json
from tests.ui.driving import press, running, screen_text
from tests.ui.scrub import AT, OPERATOR, Scrub

DEMO = sorted(path.stem for path in (FOLDER / "demo").glob("*.json"))


def test_the_three_states_are_there() -> None:
    assert DEMO == ["finished", "incident", "running"]


@pytest.mark.parametrize("state", DEMO)
def test_a_recording_tells_of_no_machine(state: str) -> None:
    raw = snapshot_json(f"demo/{state}")
    text = json.dumps(raw)
    for word in ("/tmp", "/home", ".venv", ".pyenv", socket.gethostname()):
        assert word not in text, word
    for port in set(re.findall(r"127\.0\.0\.1:(\d+)", text)):
        assert port == "30000"
    who = {f"{entry['who']['user']}@{entry['who']['host']}" for entry in raw["snapshot"].get("audit") or ()}
    assert who <= {f"{OPERATOR['user']}@{OPERATOR['host']}"}
    assert read_snapshot(raw["snapshot"]).misread == ()


def test_the_states_follow_each_other_from_the_fixed_moment_on() -> None:
    moments = [snapshot_json(f"demo/{state}")["snapshot"]["at"] for state in ("incident", "running", "finished")]
    assert moments[0] == AT
    assert moments == sorted(moments)


async def test_an_answer_that_was_an_error_is_served_as_one() -> None:
    _, controller = demo_desk("incident")
    controller.answers["history"] = OperatorError("gone", "no history here")
    with pytest.raises(OperatorError, match="no history"):
        await controller.call("history")


def test_scrubbing_moves_every_moment_alike_and_keeps_what_was_counted() -> None:
    began = 1_800_000_000.0  # 2027-01-15 08:00:00 UTC
    scrub = Scrub({f"{getpass.getuser()}@there": "ana@laptop", "/tmp/x": ""}, began, {4711: 911})
    told = {
        "at": began + 60,
        "pid": 4711,
        "tokens": 104_500,
        "who": f"{getpass.getuser()}@there",
        "log": "2027-01-15 08:01:00 B3 begins",
        "said": "finished Jan 14 07:59, before pid 4711 started 08:00",
        "path": "/tmp/x/data",
        "run": "20270115T080030-9f3c21",
    }
    assert scrub.value(told) == {
        "at": AT + 60,
        "pid": 911,
        "tokens": 104_500,
        "who": "ana@laptop",
        "log": "2026-12-01 03:13:44 B3 begins",
        "said": "finished Nov 30 03:11, before pid 911 started 03:12",
        "path": "/data",
        "run": "20261201T031314-000001",
    }


@pytest.mark.parametrize("size", [(120, 36), (80, 24), (70, 16)])
async def test_a_log_that_is_followed_shows_its_end(size: tuple[int, int]) -> None:
    desk, _ = demo_desk("finished")
    async with running(desk=desk, size=size) as (app, pilot, _):
        await press(pilot, "l")
        assert "it did all that could be done" in screen_text(app)


async def test_the_limits_of_another_process_are_seen_where_its_flags_have_no_room() -> None:
    desk, _ = demo_desk("incident")
    async with running(desk=desk, size=(80, 24)) as (app, _, __):
        assert "NO --token-budget  --max-samples 70" in screen_text(app)
    words = ["python", "run.py", "--root", "/data/prepared", "-v", "--max-samples=5", "--datasets", "B2"]
    assert flags(words) == "--max-samples=5 --datasets B2 --root /data/prepared -v"
