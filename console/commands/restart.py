"""`restart`: stop what runs, ship, launch with the budget."""

from __future__ import annotations

import sys
from pathlib import Path

from console import restart
from console.commands.confirming import confirm_and_execute
from console.commands.output import print_trace
from console.plan_diff import read_plan
from console.session import open_session
from console.settings import Settings
from remote.exitcodes import ExitCode


async def main(settings: Settings, *, yes: bool, plan_file: str | None, kill_pids: tuple[int, ...]) -> ExitCode:
    """Show the trace, ask, and carry it out; every process it did not launch must be named by `kill_pids`."""
    kept = read_plan(Path(plan_file)) if plan_file is not None else None
    async with open_session(settings) as controller:
        proposal, frozen = await restart.propose(controller, settings.options, kill_pids, kept, settings.api_key)
        print_trace(frozen.plan, sys.stderr)
        return await confirm_and_execute(proposal, yes=yes)
