"""Waits for what becomes of a connection that has just begun: reached, refused, or a question."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from console.view import ControllerLike, Link, LinkState, View

LIMIT_S = 90.0
"""A first connection ships the program and may wait for a passphrase; after this what it is at is told instead."""


async def became(
    controller: ControllerLike,
    on_stage: Callable[[str], None],
    after: Link | None = None,
    limit_s: float = LIMIT_S,
) -> Link:
    """The link once it is live, has failed or asks about a host key; as it is when the time is up.

    `on_stage` gets what connecting is at, in a few words, whenever that changes. `after` is what it
    became before: only another try counts.
    """
    news = asyncio.Event()
    unsubscribe = controller.subscribe(lambda view: news.set())
    try:
        async with asyncio.timeout(limit_s):
            while not _settled(controller.view, after):
                on_stage(controller.view.link.stage)
                await news.wait()
                news.clear()
    except TimeoutError:
        return controller.view.link
    finally:
        unsubscribe()
    return controller.view.link


def _settled(view: View, after: Link | None) -> bool:
    link = view.link
    if after is not None and (link.state, link.attempt) == (after.state, after.attempt):
        return False
    return link.state is not LinkState.CONNECTING
