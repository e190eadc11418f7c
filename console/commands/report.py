"""`report`: what the last plan said, and what was done, per dataset."""

from __future__ import annotations

import sys
from typing import Any

from console.commands.output import print_json, put_spans, width_of
from console.model import Snapshot
from console.report import make_report, planned_entry, report_lines
from console.session import open_session
from console.settings import Settings
from remote.errors import OperatorError
from remote.exitcodes import ExitCode


async def main(settings: Settings, *, as_json: bool) -> ExitCode:
    """Compare the last confirmed plan with the datasets of now. FAILED when something fell short."""
    async with open_session(settings) as controller:
        entries = await controller.call("audit", {"planned": True})
        view = controller.view
        if view.snapshot is None:
            raise OperatorError("no-snapshot", "the container has not been seen yet", "try again")
        found = make_report(
            planned_entry(entries), dataset_rows(view.snapshot), generator_row(view.snapshot), view.container_now
        )
    if as_json:
        print_json(found.to_json())
    else:
        for line in report_lines(found, width_of(sys.stdout)):
            put_spans(line, sys.stdout)
    return ExitCode.DONE if found.good else ExitCode.FAILED


def dataset_rows(snapshot: Snapshot) -> dict[str, dict[str, Any]]:
    """The datasets of a snapshot as a report reads them."""
    return {
        row.folder: {
            "state": row.state,
            "responses": row.responses,
            "tokens": row.tokens,
            "tokenization": {"decision": row.tokenization.decision, "reason": row.tokenization.reason},
        }
        for row in snapshot.datasets
    }


def generator_row(snapshot: Snapshot) -> dict[str, Any]:
    """The generator of a snapshot as a report reads it."""
    generator = snapshot.generator
    ended = {"at": generator.exit.at} if generator.exit is not None else None
    return {"verdict": generator.verdict, "run_id": generator.run_id, "exit": ended}
