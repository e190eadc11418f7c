"""`version`: the release of this copy, and of Python."""

from __future__ import annotations

import argparse
import json
import platform

from remote import __version__
from remote.exitcodes import ExitCode
from remote.options import Options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: Options, args: argparse.Namespace) -> ExitCode:
    """Print the version, the release (digest of the sources) and the Python that runs it."""
    from remote.release import release

    value = {"version": __version__, "release": release(), "python": platform.python_version()}
    if args.json:
        print(json.dumps(value))
    else:
        print(f"eagle3-remote {value['version']} release {value['release']} python {value['python']}")
    return ExitCode.DONE
