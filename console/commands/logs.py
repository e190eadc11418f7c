"""`logs`: the generator's log, its end or followed."""

from __future__ import annotations

import asyncio
import sys

from console.commands.output import put
from console.controller import Controller
from console.session import open_session, say
from console.settings import Settings
from console.view import LinkState, View
from remote.errors import OperatorError
from remote.exitcodes import ExitCode

BYTES_PER_LINE = 200
FOLLOW_EVERY_S = 1.0
LINK_CODES = frozenset({"link-down", "link-lost", "timeout"})
WAITS_FOR_A_PERSON = frozenset({LinkState.FAILED, LinkState.UNKNOWN_KEY, LinkState.CHANGED_KEY})


async def main(settings: Settings, *, lines: int, follow: bool) -> ExitCode:
    """Print the last lines, then new ones as they come when following."""
    async with open_session(settings) as controller:
        page = await controller.call("log", {"bytes": max(1 << 14, lines * BYTES_PER_LINE)})
        shown = page["lines"][-lines:]
        if not shown and not follow:
            raise OperatorError("no-log", "nothing has been logged here yet", "restart starts a run")
        _print(shown)
        if follow:
            await follow_log(controller, page["end"])
    return ExitCode.DONE


async def follow_log(controller: Controller, end: int) -> None:
    """Print what comes after `end`, over lost links, until a signal. Raises the error that only a person can mend."""
    with _Gaps(controller) as gaps:
        while True:
            await gaps.over()
            try:
                page = await controller.call("log", {"after": end, "bytes": 1 << 18})
            except OperatorError as error:
                # The controller connects again by itself, and the log goes on where it was left.
                if error.code not in LINK_CODES:
                    raise
            else:
                end = page["end"]
                _print(page["lines"])
            await asyncio.sleep(FOLLOW_EVERY_S)


class _Gaps:
    """Tells of each time that the link is away, once, and waits until it is back.

    Told by the link itself: one that is back before the next look at the log was away all the same.
    """

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._fresh = asyncio.Event()
        self._failed: OperatorError | None = None
        self._away = False

    def __enter__(self) -> _Gaps:
        self._unsubscribe = self._controller.subscribe(self._look)
        self._look(self._controller.view)
        return self

    def __exit__(self, *_: object) -> None:
        self._unsubscribe()

    async def over(self) -> None:
        """Wait until there is a link. Raises OperatorError where it needs a person."""
        await self._fresh.wait()
        if self._failed is not None:
            raise self._failed

    def _look(self, view: View) -> None:
        link = view.link
        self._failed = None
        if link.state in WAITS_FOR_A_PERSON:
            self._failed = OperatorError(link.code or "link", link.error, link.remedy)
        elif not link.fresh and not self._away:
            say(f"{link.error or f'nothing comes from {link.target}'}; the log goes on when it is back")
        self._away = not link.fresh
        if link.fresh or self._failed is not None:
            self._fresh.set()
        else:
            self._fresh.clear()


def _print(lines: list[str]) -> None:
    for line in lines:
        put(line, sys.stdout)
    sys.stdout.flush()
