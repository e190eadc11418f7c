"""`doctor`: the preflight, each check with its remedy."""

from __future__ import annotations

import sys

from console.clock import wall_s
from console.commands.output import print_json, put_spans, width_of
from console.restart_plan import PREFLIGHT_DEADLINE_S
from console.session import open_session
from console.settings import Settings
from console.trace_text import preflight_lines
from remote.exitcodes import ExitCode


async def main(settings: Settings, *, as_json: bool) -> ExitCode:
    """Run all checks; FAILED when one of them is a blocker."""
    async with open_session(settings) as controller:
        asked = {"options": settings.options.to_json(), "at": wall_s()}
        checks = await controller.call("preflight", asked, PREFLIGHT_DEADLINE_S)
    if as_json:
        print_json(checks)
    else:
        for line in preflight_lines(checks, width_of(sys.stdout), full=True):
            put_spans(line, sys.stdout)
    blocked = any(check.get("level") == "blocker" for check in checks)
    return ExitCode.FAILED if blocked else ExitCode.DONE
