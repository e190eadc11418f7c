"""Run a blocking call in a thread that nobody waits for at the end: a probe that hangs must not delay an exit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_daemon(call: Callable[[], T]) -> T:
    """The result of `call`, made in a thread of its own. Cancelling leaves the thread to itself. Raises what it raises."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def work() -> None:
        result, error = None, None
        try:
            result = call()
        except BaseException as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            # The loop is closed: whoever asked is gone.
            return

    threading.Thread(target=work, daemon=True, name="probe").start()
    return await future
