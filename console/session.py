"""A connection for a command without a screen: connected, first snapshot there, closed at the end."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from console.ask_terminal import ask_on_terminal, can_ask
from console.connecting import Connector
from console.controller import Controller
from console.demo_target import aim
from console.one_shot import open_controller
from console.settings import Settings
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.release import release

FIRST_LOOK_DEADLINE_S = 120.0


def say(text: str) -> None:
    """A line of progress, to stderr, so that stdout keeps to the result."""
    print(f"eagle3-console: {text}", file=sys.stderr, flush=True)


def _reach(settings: Settings) -> tuple[Settings, Connector, str]:
    """The settings of a target that can be connected to, how to, and its name. Raises OperatorError."""
    if settings.target is None:
        raise OperatorError(
            "no-target", "no target is given", "name one, or set default_profile in the settings", ExitCode.USAGE
        )
    settings = aim(settings)
    assert settings.target is not None
    ask = ask_on_terminal if can_ask() else None
    connector = Connector(settings.target, settings.options.python, ask)
    if os.environ.get("EAGLE3_DEBUG") == "1":
        connector.on_stage = say
    return settings, connector, settings.target.name


@asynccontextmanager
async def open_session(settings: Settings, *, timeout_s: float = FIRST_LOOK_DEADLINE_S) -> AsyncIterator[Controller]:
    """A live controller of the settings' target. Raises OperatorError when it cannot be had."""
    settings, connector, name = _reach(settings)
    async with open_controller(
        name, settings.options, connector, timeout_s=timeout_s, thresholds=settings.thresholds, release=release()
    ) as controller:
        yield controller


@asynccontextmanager
async def open_lasting(settings: Settings) -> AsyncIterator[Controller]:
    """A controller that has only begun to connect, and connects again by itself for as long as the block lasts."""
    settings, connector, name = _reach(settings)
    controller = Controller(name, settings.options, connector, thresholds=settings.thresholds, release=release())
    await controller.start()
    try:
        yield controller
    finally:
        await controller.close()
