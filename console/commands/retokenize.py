"""`retokenize`: rebuild tokenized_data.jsonl where it is needed."""

from __future__ import annotations

from console.actions import Actions
from console.commands.confirming import confirm_and_execute
from console.session import open_session
from console.settings import Settings
from remote.exitcodes import ExitCode


async def main(settings: Settings, *, yes: bool) -> ExitCode:
    """Propose, ask, carry out."""
    async with open_session(settings) as controller:
        proposal = await Actions().retokenize(controller, settings.options, None)
        return await confirm_and_execute(proposal, yes=yes)
