"""`trace`: the dry run, as text, JSON or a file for `restart --plan`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from console.commands.output import print_json, print_trace
from console.restart_plan import look
from console.session import open_session, say
from console.settings import Settings
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.layout import write_whole

VERSION = 1
"""Of the plan as it is printed and kept; docs/json.md is the reference."""


async def main(settings: Settings, *, as_json: bool, out: str | None, full: bool) -> ExitCode:
    """Ask the container for the plan and the preflight, and show them. Changes nothing."""
    async with open_session(settings) as controller:
        frozen = await look(controller, settings.options)
    plan = {"version": VERSION, **frozen.plan}
    if out is not None:
        try:
            write_whole(Path(out).absolute(), json.dumps(plan, indent=1).encode() + b"\n", 0o600)
        except OSError as error:
            raise OperatorError("not-written", f"cannot write {out}: {error.strerror}", "name another file") from None
        say(f"the plan is kept in {out}; use it with: eagle3-console restart {settings.target} --plan {out}")
    if as_json:
        print_json(plan)
    else:
        print_trace(frozen.plan, sys.stdout, full=full)
    return ExitCode.DONE
