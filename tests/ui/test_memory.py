"""Memory stays flat: two hours of updates through the main screen and the log, counted by `make soak`."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from tests.support.recorded import snapshot_json, view_of
from tests.ui.driving import press, running

WARM, UPDATES = 500, 14_400
ALLOWED_BYTES = 3_000_000


@pytest.mark.soak
async def test_two_hours_of_updates_leave_nothing_behind() -> None:
    raw = snapshot_json("running")
    async with running("running") as (_, pilot, controller):
        before = 0
        for number in range(UPDATES):
            raw["seq"] += 1
            raw["at"] += 0.5
            raw["datasets"]["B4_mixturethoughts"]["tokens"] += 300
            controller.publish(view_of(raw))
            await pilot.pause()
            if number % 1000 == 999:
                await press(pilot, "l", "escape", "d", "escape", "j")
            if number == WARM:
                gc.collect()
                tracemalloc.start()
                before = tracemalloc.get_traced_memory()[0]
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < ALLOWED_BYTES
        tracemalloc.stop()
