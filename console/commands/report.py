"""`report`: what the last plan said and what was done, per dataset."""

from __future__ import annotations

import sys

from console.commands.output import print_json, put_spans, width_of
from console.report import make_report, planned_entry, report_lines
from console.session import open_session
from console.settings import Settings
from console.status_json import status_json
from remote.exitcodes import ExitCode


async def main(settings: Settings, *, as_json: bool) -> ExitCode:
    """Compare the last restart's or launch's plan with the datasets as they are now. Raises OperatorError without one."""
    async with open_session(settings) as controller:
        entries = await controller.call("audit", {"planned": True})
        status, now = status_json(controller.view), controller.view.container_now
    report = make_report(planned_entry(entries), status["datasets"], status["generator"], now)
    if as_json:
        print_json(report.to_json())
    else:
        for line in report_lines(report, width_of(sys.stdout)):
            put_spans(line, sys.stdout)
    return ExitCode.DONE
