"""Memory stays flat: two hours of updates through the main screen, the log and the trace, counted by `make soak`."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from pathlib import Path

import pytest
from textual.widget import Widget

from tests.support.recorded import snapshot_json, view_of
from tests.ui.driving import press, running

WARM, UPDATES = 1_500, 14_400
"""At two a second. What is kept on purpose (the last minutes of rates, a screen's lines) has filled up when it is warm."""
VISIT_EVERY = 25
"""Often enough that Textual's own caches, of a thousand entries for what was drawn, are full when it is warm."""
ALLOWED_BLOCKS, ALLOWED_BYTES = 20_000, 8_000_000


def held() -> tuple[int, int]:
    """Blocks that the interpreter holds, which are exact, and resident bytes, which cover what is not the interpreter's."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return sys.getallocatedblocks(), pages * 4096


KEYS = ("l", "d", "enter", "s", "e", "a", "b", "r", "K", "c", "question_mark", "ctrl+p")


def detached() -> Counter[str]:
    """Widgets that are in no screen any more and still held by something."""
    gc.collect()
    return Counter(
        type(node).__name__ for node in gc.get_objects() if isinstance(node, Widget) and not node.is_attached
    )


async def test_screens_that_were_left_are_let_go() -> None:
    async with running("running") as (_, pilot, _):

        async def visit_all() -> None:
            for key in KEYS:
                await press(pilot, key, "escape")

        await visit_all()
        before = detached()
        await visit_all()
        await visit_all()
        # The loop's cancelled timers hold a few for some seconds; what leaks is there again with each visit.
        assert {name: more for name, more in (detached() - before).items() if more >= len(KEYS)} == {}


@pytest.mark.soak
async def test_two_hours_of_updates_leave_nothing_behind() -> None:
    raw = snapshot_json("running")
    async with running("running") as (_, pilot, controller):
        for number in range(1, UPDATES + 1):
            raw["seq"] += 1
            raw["at"] += 0.5
            raw["datasets"]["B4_mixturethoughts"]["tokens"] += 300
            controller.publish(view_of(raw))
            await pilot.pause()
            if number % VISIT_EVERY == 0:
                await press(pilot, "l", "escape", "d", "escape", "e", "escape", "j")
            if number == WARM:
                blocks, resident_bytes = held()
            elif number > WARM and number % WARM == 0:
                now, now_bytes = held()
                print(f"{number} updates: {now - blocks:+} blocks, {(now_bytes - resident_bytes) / 1e6:+.1f} MB")
        now, now_bytes = held()
        assert now - blocks < ALLOWED_BLOCKS
        assert now_bytes - resident_bytes < ALLOWED_BYTES
