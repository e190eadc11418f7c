"""A controller for a command without a screen: it has looked at everything once, and is closed at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from console.controller import Controller
from console.conversation import Connect
from console.thresholds import Thresholds
from console.view import View
from remote.errors import OperatorError
from remote.options import Options

DATA_DEADLINE_S = 90.0
"""For the datasets: a full tree that has never been scanned takes some of it."""

OTHERS_DEADLINE_S = 8.0
"""For all else: a healthy engine's health takes a second, nvidia-smi five at most."""


@asynccontextmanager
async def open_controller(
    target: str,
    options: Options,
    connect: Connect,
    *,
    timeout_s: float = 60.0,
    thresholds: Thresholds | None = None,
    release: str | None = None,
) -> AsyncIterator[Controller]:
    """Connect, and wait for the first looks; what hangs on the container is unknown in the view.

    Raises OperatorError when connecting fails (it is not tried again) or takes too long, and when
    the root cannot be read: eight datasets without a figure would answer nothing.
    """
    controller = Controller(target, options, connect, thresholds=thresholds, release=release)
    await controller.start()
    try:
        await controller.ready(timeout_s)
        await controller.complete(OTHERS_DEADLINE_S)
        _refuse_unreadable(await controller.complete(DATA_DEADLINE_S, frozenset({"datasets", "plan"})))
        yield controller
    finally:
        await controller.close()


def _refuse_unreadable(view: View) -> None:
    snapshot = view.snapshot
    if snapshot is None or any(row.state is not None for row in snapshot.datasets):
        return
    told = next((problem for problem in snapshot.problems if problem.startswith("datasets: ")), None)
    if told is not None:
        raise OperatorError("unreadable-root", told.removeprefix("datasets: "), "check --root")
