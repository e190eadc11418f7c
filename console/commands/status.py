"""`status`: one look, as a table, JSON, metrics, or the exit status of a check."""

from __future__ import annotations

import sys

from console.commands.output import print_json, put_text, width_of
from console.session import open_session
from console.settings import Settings
from console.status_json import check_status, status_json
from console.status_text import status_lines
from remote.exitcodes import ExitCode


async def main(settings: Settings, *, as_json: bool, prometheus: bool, check: bool) -> int:
    """Print what the container looks like now; with `check` the exit status says how it is."""
    async with open_session(settings) as controller:
        view = controller.view
    if as_json:
        print_json(status_json(view))
    elif prometheus:
        from console.prometheus import metrics

        sys.stdout.write(metrics(view))
    else:
        for line in status_lines(view, width_of(sys.stdout)):
            put_text(line, sys.stdout)
    return check_status(view) if check else int(ExitCode.DONE)
