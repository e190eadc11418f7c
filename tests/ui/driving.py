"""Driving the application headless: press, settle, read what stands on the screen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from textual.app import App
from textual.pilot import Pilot

from console.app import ConsoleApp
from console.colors import Colors
from console.desk import Desk
from console.screens.dialog import Dialog
from tests.support.recorded import FakeController, desk_of
from tests.ui.scenes import settle


def screen_lines(app: App[int]) -> list[str]:
    """The text of the topmost screen as it would reach the terminal, filters applied."""
    # Textual has no public way to the finished lines but a picture of them.
    return [strip.text for strip in app.screen._compositor.render_strips()]


def screen_text(app: App[int]) -> str:
    """All lines of the screen, in one text."""
    return "\n".join(screen_lines(app))


async def until(pilot: Pilot[int], holds: Callable[[], bool], deadline_s: float = 10.0) -> None:
    """Let the application go on until something holds; fails with what is on the screen."""
    try:
        async with asyncio.timeout(deadline_s):
            while not holds():  # noqa: ASYNC110  what is awaited is whatever a screen comes to show
                # Not the pilot's own pause: it waits half a minute for a widget that was removed meanwhile.
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"it did not come:\n{screen_text(pilot.app)}") from None


async def press(pilot: Pilot[int], *keys: str) -> None:
    """Press keys, each with its consequences; dialogs that appear are armed as time would do it."""
    for key in keys:
        await pilot.press(key)
        await settle(pilot)
        if isinstance(pilot.app.screen, Dialog):
            pilot.app.screen.arm()
            await settle(pilot)


@asynccontextmanager
async def running(
    state: str | None = "incident", size: tuple[int, int] = (120, 36), *, desk: Desk | None = None, **more: object
) -> AsyncIterator[tuple[ConsoleApp, Pilot[int], FakeController]]:
    """The application over a recording; `more` goes to `desk_of`."""
    if desk is None:
        desk, _ = desk_of(state, **more)  # type: ignore[arg-type]
    app = ConsoleApp(desk=desk, ascii_only=False, colors=Colors.FULL)
    async with app.run_test(size=size, notifications=True) as pilot:
        await settle(pilot)
        assert isinstance(desk.controller, FakeController)
        yield app, pilot, desk.controller
