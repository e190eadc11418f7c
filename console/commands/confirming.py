"""Ask before acting, carry out, and tell: what `restart`, `kill` and `retokenize` share."""

from __future__ import annotations

import sys

import click

from console.commands.output import print_outcome, print_proposal, put
from console.ports import Ask, Proposal
from console.view import Level
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from widgets.stage_list import Stage, StageState

_TOLD = {StageState.WORKING: "…", StageState.DONE: "✓", StageState.FAILED: "✗", StageState.NOT_DONE: "–"}


class StagePrinter:
    """Prints each stage once for every state it reaches."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[StageState, str]] = {}

    def __call__(self, stages: tuple[Stage, ...]) -> None:
        for stage in stages:
            now = (stage.state, stage.detail)
            if stage.state in _TOLD and self._seen.get(stage.id) != now:
                self._seen[stage.id] = now
                put(f"  {_TOLD[stage.state]} {stage.word}  {stage.detail}", sys.stderr)


async def confirm_and_execute(proposal: Proposal, *, yes: bool, choice: str = "") -> ExitCode:
    """Show a proposal, ask for `y` unless `yes`, and carry it out. Nothing is done without a yes.

    Raises OperatorError when it is blocked, or when nobody is there to be asked.
    """
    print_proposal(proposal, sys.stderr)
    if proposal.ask is Ask.NOTHING:
        put("nothing to do", sys.stderr)
        return ExitCode.DONE
    if proposal.ask is Ask.BLOCKED:
        why = next((remark.text for remark in proposal.remarks if remark.level is Level.CRITICAL), "it is blocked")
        raise OperatorError("blocked", why)
    if not yes:
        if not sys.stdin.isatty():
            raise OperatorError(
                "not-confirmed",
                "nobody is there to be asked: stdin is no terminal",
                "read the lines above, then add --yes",
                ExitCode.USAGE,
            )
        answer = click.prompt(f"{proposal.yes}? y/N", default="n", show_default=False, err=True)
        if answer.strip().lower() not in ("y", "yes"):
            raise click.Abort
    outcome = await proposal.execute(choice, StagePrinter())
    print_outcome(outcome, sys.stdout if outcome.ok else sys.stderr)
    return ExitCode.DONE if outcome.ok else ExitCode.FAILED
