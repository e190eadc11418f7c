"""`launch`: start the generator detached, by hand or (with `--settings -`) for the agent."""

from __future__ import annotations

import argparse
import getpass
import json
import os
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from remote.detached import program
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.handshake import API_KEY
from remote.launch import HANDSHAKE_S, Launched, Order, launch_here
from remote.launch_gate import refuse_at_launch
from remote.layout import Layout
from remote.options import Options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--settings", choices=["-"], help="read settings as JSON from stdin and answer in JSON (for the agent)"
    )
    parser.add_argument("--handshake-s", type=float, default=HANDSHAKE_S, help="seconds the generator has to get ready")


def run(options: Options, args: argparse.Namespace) -> ExitCode:
    """Launch and say what runs; the errors are those of `launch.launch`."""
    if args.settings:
        return answer(lambda: {"launched": _from_settings(read_settings()).to_json()})
    root = Path(options.root).absolute()
    options = replace(options, root=str(root))
    layout = Layout(root)
    layout.check_root()
    command = (options.python or sys.executable, "-B", program(layout))
    refuse_at_launch(layout, options, time.time())
    secrets = {API_KEY: os.environ[API_KEY]} if os.environ.get(API_KEY) else {}
    launched = launch_here(layout, Order(options, command, caller(), secrets, args.handshake_s))
    if args.json:
        print(json.dumps(launched.to_json()))
    else:
        print(f"run {launched.run_id} is ready: generator pid {launched.pid}, supervisor pid {launched.supervisor_pid}")
        print(f"log: {layout.run_log}")
    return ExitCode.DONE


def _from_settings(settings: dict[str, Any]) -> Launched:
    order = Order.from_json(settings)
    return launch_here(Layout(Path(order.options.root)), order)


def caller() -> str:
    """`user@host` of whoever typed the command on the container; `SSH_CLIENT` tells where from."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid {os.getuid()}"
    client = os.environ.get("SSH_CLIENT", "").split(" ")[0]
    return f"{user}@{client or socket.gethostname()}"


def read_settings() -> dict[str, Any]:
    """The settings object on stdin. Raises OperatorError."""
    try:
        value = json.loads(sys.stdin.buffer.read())
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise OperatorError(
            "usage",
            "stdin holds no settings",
            "this form is for the agent; by hand leave --settings out",
            ExitCode.USAGE,
        )
    return value


def answer(work: Any) -> ExitCode:
    """Print what `work` returns, or its error, as one JSON line; a reader who is gone changes nothing."""
    try:
        value, code = work(), ExitCode.DONE
    except OperatorError as error:
        value, code = {"error": error.to_json()}, error.exit_code
    except (KeyError, TypeError, ValueError) as error:
        problem = OperatorError("usage", f"the settings on stdin are not complete ({type(error).__name__}: {error})")
        value, code = {"error": problem.to_json()}, ExitCode.USAGE
    try:
        print(json.dumps(value), flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return code
