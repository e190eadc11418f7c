"""`generate`: one run in the foreground; what a supervisor starts, and what an operator may start by hand."""

from __future__ import annotations

import argparse
import os

from remote.exitcodes import ExitCode
from remote.generate import run as generate
from remote.handshake import API_KEY, READY_FD
from remote.options import Options
from remote.run_settings import read_settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("--run", metavar="ID", default=None, help="the run of run.json that this process is")


def run(options: Options, args: argparse.Namespace) -> ExitCode:
    """Carry it out. Raises OperatorError."""
    settings = read_settings(options, args.run, os.environ)
    for name in (READY_FD, API_KEY):
        # No child of ours needs them: the key stays in this process.
        os.environ.pop(name, None)
    return generate(settings)
