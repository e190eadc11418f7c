"""`status`: one look, as a table, JSON, metrics, or the exit status of a check."""

from __future__ import annotations

import sys

from console.commands.output import print_json, put, put_text, width_of
from console.prometheus import down, metrics
from console.session import open_session
from console.settings import Settings
from console.status_json import check_status, status_json
from console.status_text import check_line, status_lines
from remote.errors import OperatorError
from remote.exitcodes import ExitCode


async def main(settings: Settings, *, as_json: bool, prometheus: bool, check: bool) -> int:
    """Print what the container looks like now; with `check` the exit status says how it is, and one line why."""
    try:
        async with open_session(settings) as controller:
            view = controller.view
    except OperatorError:
        if prometheus:
            # A file that is not replaced would go on saying that all is well.
            sys.stdout.write(down(settings.name))
        raise
    if as_json:
        print_json(status_json(view))
    elif prometheus:
        sys.stdout.write(metrics(view))
    elif check:
        put(check_line(view), sys.stdout)
    else:
        for line in status_lines(view, width_of(sys.stdout)):
            put_text(line, sys.stdout)
    return int(check_status(view) if check else ExitCode.DONE)
