"""What stands in for a controller until the link's code is loaded: the first paint must not wait for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from console.desk import Desk
from console.view import Link, LinkState, View
from remote.errors import OperatorError
from remote.options import Options

if TYPE_CHECKING:
    from console.ports import Outcome, Proposal


def _not_yet() -> OperatorError:
    return OperatorError("opening", "the console is still opening", "try again in a moment")


class OpeningController:
    """Says that it connects, and can do nothing."""

    def __init__(self, target: str, options: Options, now: float) -> None:
        link = Link(LinkState.CONNECTING, target=target, stage="opening")
        self._view = View(now=now, link=link, options=options)

    @property
    def view(self) -> View:
        """A view without a snapshot."""
        return self._view

    def subscribe(self, callback: Callable[[View], None]) -> Callable[[], None]:
        """Nothing ever changes here."""
        return lambda: None

    async def call(self, method: str, params: Mapping[str, Any] | None = None, timeout_s: float = 20.0) -> Any:
        """Raises OperatorError."""
        raise _not_yet()

    def reconnect_now(self) -> None:
        """It is already trying."""

    async def close(self) -> None:
        """Nothing is open."""


class OpeningOperations:
    """Refuses every action until there is a link."""

    async def _refuse(self, *_: object) -> Any:
        raise _not_yet()

    async def restart(self, *_: object) -> Proposal:
        """Raises OperatorError, as all of these."""
        raise _not_yet()

    kill = retokenize = restart

    async def apply_budget(self, *_: object) -> Outcome:
        """Raises OperatorError."""
        raise _not_yet()

    pause = ack = note = hold = apply_budget


def opening_desk(target: str, options: Options, now: float) -> Desk:
    """A desk to paint with while the real one is being made."""
    return Desk(OpeningController(target, options, now), OpeningOperations())
