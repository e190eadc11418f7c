"""`restart`: stop what runs, ship, launch with the budget."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from console import restart
from console.commands.confirming import confirm_and_execute
from console.commands.output import print_trace
from console.session import open_session
from console.settings import Settings
from remote.errors import OperatorError
from remote.exitcodes import ExitCode


async def main(settings: Settings, *, yes: bool, plan_file: str | None, kill_pids: tuple[int, ...]) -> ExitCode:
    """Show the trace, ask, and carry it out; every process it did not launch must be named by `kill_pids`."""
    kept = _read_plan(plan_file) if plan_file is not None else None
    async with open_session(settings) as controller:
        proposal, frozen = await restart.propose(controller, settings.options, kill_pids, kept, settings.api_key)
        print_trace(frozen.plan, sys.stderr)
        return await confirm_and_execute(proposal, yes=yes)


def _read_plan(name: str) -> dict[str, Any]:
    try:
        plan = json.loads(Path(name).read_bytes())
    except (OSError, ValueError) as error:
        raise OperatorError(
            "no-plan",
            f"cannot read the plan {name}: {error}",
            "make one with: eagle3-console trace --out FILE",
            ExitCode.USAGE,
        ) from None
    if not isinstance(plan, dict) or "datasets" not in plan:
        raise OperatorError(
            "no-plan", f"{name} holds no plan", "make one with: eagle3-console trace --out FILE", ExitCode.USAGE
        )
    return plan
