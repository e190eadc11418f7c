"""`kill`: stop the generator, or a process that was not launched by this console."""

from __future__ import annotations

from console import kill
from console.commands.confirming import confirm_and_execute
from console.session import open_session
from console.settings import Settings
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.text import clean


async def main(settings: Settings, *, mode: str, pid: int | None, yes: bool) -> ExitCode:
    """Propose, ask, carry out. `pid` names a foreign writer; without it our own generator is meant."""
    async with open_session(settings) as controller:
        if pid is None:
            proposal = kill.propose_generator(controller, mode)
            return await confirm_and_execute(proposal, yes=yes, choice=mode)
        snapshot = controller.view.snapshot
        writers = snapshot.writers if snapshot else ()
        writer = next((one for one in writers if one.pid == pid), None)
        if writer is None:
            there = ", ".join(f"{one.pid} ({clean(' '.join(one.argv), 60)})" for one in writers) or "there is none"
            raise OperatorError(
                "not-there",
                f"pid {pid} is no foreign process that writes these datasets: {there}",
                "look again with status",
            )
        return await confirm_and_execute(kill.propose_writer(controller, writer), yes=yes)
