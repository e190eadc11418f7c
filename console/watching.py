"""Waiting for the container to look a certain way, with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from console.view import ControllerLike, View


async def wait_for(controller: ControllerLike, condition: Callable[[View], bool], timeout_s: float) -> View | None:
    """The first view, now or later, for which `condition` holds; None when the time is up."""
    found: asyncio.Future[View] = asyncio.get_running_loop().create_future()

    def look(view: View) -> None:
        if not found.done() and condition(view):
            found.set_result(view)

    unsubscribe = controller.subscribe(look)
    try:
        look(controller.view)
        async with asyncio.timeout(timeout_s):
            return await found
    except TimeoutError:
        return None
    finally:
        unsubscribe()
