"""Any size of terminal: all eight rows and their states down to 45×20, essentials below, never an exception."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from tests.ui.driving import press, running, screen_lines, screen_text
from tests.ui.scenes import settle

IDS = [f"B{number}" for number in range(1, 9)]
STATES = ["budget met", "running", "partial", *["waiting"] * 5]


def rows(lines: list[str]) -> dict[str, str]:
    return {line.strip()[:2]: line for line in lines if line.strip()[:2] in IDS}


@pytest.mark.parametrize("size", [(200, 60), (120, 36), (100, 30), (80, 24), (60, 20), (45, 20), (45, 15)])
async def test_all_eight_rows_with_their_states(size: tuple[int, int]) -> None:
    async with running("incident", size) as (app, _, __):
        shown = rows(screen_lines(app))
        assert list(shown) == IDS
        for dataset, state in zip(IDS, STATES, strict=True):
            assert state in shown[dataset]
        assert "pid 911" in screen_text(app)
        assert "CRITICAL" in screen_text(app)


async def test_120x36_shows_all_of_it() -> None:
    async with running("running", (120, 36)) as (app, _, __):
        text = screen_text(app)
        for words in (
            "gpu-07", "live", "03:12:44 UTC", "+0.2 s", "/data/…/prepared", "pid 21877", "up 2 h 56 m", "--token-budget",
            "4f2a91c", "64 in flight", "612/s", "healthy", "Kimi-K2.5", "64 running, 0 queued", "590 tok/s", "KV 71 %",
            "GPU %", "°C", "kW", "GiB", "10.45 M", "104 %", "✓ 10,000", "9,998", "no alerts", "tok/s, 64 in flight", "q quit",
        ):  # fmt: skip
            assert words in text, words


async def resize(pilot: Pilot[int], width: int, height: int) -> None:
    await pilot.resize_terminal(width, height)


async def test_a_storm_of_sizes_on_every_screen() -> None:
    sizes = [(1, 1), (200, 60), (23, 7), (60, 15), (119, 9), (80, 24)]
    async with running("running") as (app, pilot, _):
        for way in ((), ("d",), ("l",), ("e",), ("a",), ("enter",), ("K",)):
            await press(pilot, *way)
            for width, height in sizes:
                await resize(pilot, width, height)
            await settle(pilot)
            lines = screen_lines(app)
            assert len(lines) == 24 and lines[0].strip()
            await press(pilot, "escape")


async def test_too_small_is_said() -> None:
    async with running("incident", (20, 5)) as (app, pilot, _):
        assert "too small: 20×5" in screen_text(app)
        await resize(pilot, 80, 24)
        await settle(pilot)
        assert "too small" not in screen_text(app)
        assert list(rows(screen_lines(app))) == IDS


@pytest.mark.parametrize("size", [(30, 8), (60, 15), (24, 8)])
async def test_essentials_in_little_room(size: tuple[int, int]) -> None:
    async with running("incident", size) as (app, _, __):
        text = screen_text(app)
        assert "gpu-07" in text and "B1" in text and "▲" in text
