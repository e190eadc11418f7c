"""`logs`: the generator's log, its end or followed."""

from __future__ import annotations

import asyncio
import sys

from console.commands.output import put
from console.session import open_session, say
from console.settings import Settings
from remote.errors import OperatorError
from remote.exitcodes import ExitCode

BYTES_PER_LINE = 200
FOLLOW_EVERY_S = 1.0
LINK_CODES = frozenset({"link-down", "link-lost", "timeout"})


async def main(settings: Settings, *, lines: int, follow: bool) -> ExitCode:
    """Print the last lines, then new ones as they come when following."""
    async with open_session(settings) as controller:
        page = await controller.call("log", {"bytes": max(1 << 14, lines * BYTES_PER_LINE)})
        shown = page["lines"][-lines:]
        if not shown and not follow:
            raise OperatorError("no-log", "nothing has been logged here yet", "restart starts a run")
        for line in shown:
            put(line, sys.stdout)
        sys.stdout.flush()
        away = False
        while follow:
            await asyncio.sleep(FOLLOW_EVERY_S)
            try:
                page = await controller.call("log", {"after": page["end"], "bytes": 1 << 18})
            except OperatorError as error:
                if error.code not in LINK_CODES:
                    raise
                # The controller connects again by itself, and the log goes on where it was left.
                if not away:
                    say(f"{error}; the log goes on when it is back")
                away = True
                continue
            away = False
            for line in page["lines"]:
                put(line, sys.stdout)
            sys.stdout.flush()
    return ExitCode.DONE
