"""A connection for a command without a screen: connected, first snapshot there, closed at the end."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from console.connecting import connector
from console.controller import Controller, open_controller
from console.settings import Settings
from remote.release import release

FIRST_LOOK_DEADLINE_S = 120.0


def say(text: str) -> None:
    """A line of progress, to stderr, so that stdout keeps to the result."""
    print(f"eagle3-console: {text}", file=sys.stderr, flush=True)


@asynccontextmanager
async def open_session(settings: Settings, *, timeout_s: float = FIRST_LOOK_DEADLINE_S) -> AsyncIterator[Controller]:
    """A live controller of the settings' target. Raises OperatorError when it cannot be had."""
    debug = os.environ.get("EAGLE3_DEBUG") == "1"
    connect = connector(settings, on_stage=say if debug else lambda stage: None)
    async with open_controller(
        settings.name, settings.options, connect, timeout_s=timeout_s, thresholds=settings.thresholds, release=release()
    ) as controller:
        yield controller
