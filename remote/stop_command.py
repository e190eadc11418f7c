"""`stop`: stop the generator by hand, or (with `--settings -`) do the agent's work to the end without it."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.figures import duration
from remote.handshake import API_KEY
from remote.identity import identify
from remote.launch_command import answer, caller, read_settings
from remote.layout import Layout
from remote.options import Options
from remote.stop import stop_run, stop_stray
from remote.stop_helper import stop_here
from remote.stopped import Stopped, record_stop


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--drain",
        dest="mode",
        action="store_const",
        const="drain",
        default="drain",
        help="finish what is in flight, at most --drain-s seconds (the default)",
    )
    how.add_argument(
        "--now", dest="mode", action="store_const", const="now", help="cancel what is in flight, flush, exit"
    )
    how.add_argument("--force", dest="mode", action="store_const", const="force", help="SIGKILL to all of the run")
    how.add_argument("--pid", type=int, help="stop this process instead, one that was not launched: INT, TERM, KILL")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--settings", choices=["-"], help="read settings as JSON from stdin and answer in JSON (for the agent)"
    )


def run(options: Options, args: argparse.Namespace) -> ExitCode:
    """Stop and say what is left; exit 0 only when nothing is."""
    layout = Layout(Path(options.root).absolute())
    if args.settings:
        settings = read_settings()
        return answer(lambda: stop_here(layout, settings, os.environ.get(API_KEY)).to_json())
    if options.read_only:
        raise OperatorError("read-only", "nothing is stopped in read-only mode", "leave --read-only out")
    layout.check_root()
    by = caller()
    if args.pid is None:
        stopped, target = stop_run(layout, args.mode, options.drain_s, None, by), None
    else:
        target = identify(args.pid)
        if target is None:
            raise OperatorError("gone", f"there is no process {args.pid}", "look again at what runs")
        stopped = stop_stray(layout, target, by)
    record_stop(layout, by, stopped, target, "stop" if args.pid is None else "kill-stray")
    print(json.dumps(stopped.to_json()) if args.json else sentence(stopped))
    return ExitCode.DONE if stopped.done else ExitCode.FAILED


def sentence(stopped: Stopped) -> str:
    """The outcome in words."""
    if stopped.left:
        return f"still there after {duration(stopped.took_s)}: {'; '.join(str(one) for one in stopped.left)}"
    if stopped.respawned:
        again = stopped.respawned[0]
        parent = again.get("parent")
        by = f" by pid {parent['pid']} ({parent['argv']})" if parent else ""
        return f"stopped, but started again{by}: pid {again['pid']}; stop what starts it first"
    if stopped.how == "nothing-ran":
        return "nothing ran"
    detail = (stopped.exit or {}).get("detail")
    return f"stopped in {duration(stopped.took_s)}; nothing is left" + (f"; {detail}" if detail else "")
