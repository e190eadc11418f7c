"""The command line of `eagle3-remote`: parses, dispatches, and turns every failure into one line.

A command is a module with `add_arguments(parser)` and `run(options, args) -> ExitCode`; it is
imported only when it is called, so that `version` and `--help` cost nothing.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.options import TABLE, Option, Options
from remote.text import clean

COMMANDS: dict[str, tuple[str, str]] = {
    "agent": ("remote.agent", "serve the console on stdin and stdout"),
    "scan": ("remote.scan_command", "check every record and say what is there"),
    "plan": ("remote.plan_command", "say what a restart would do, and why; changes nothing"),
    "launch": ("remote.launch_command", "start the generator detached, under its supervisor"),
    "stop": ("remote.stop_command", "stop the generator: drain, now or force"),
    "generate": ("remote.generate_command", "generate answers to the token budget, in the foreground"),
    "retokenize": ("remote.retokenize_command", "rebuild tokenized_data.jsonl where needed"),
    "row": ("remote.row_command", "decode one training row"),
    "version": ("remote.version_command", "print the release"),
}
"""Command to (module, one line of help)."""

EPILOG = """\
exit codes: 0 done, 1 failed, 2 wrong usage; generate also 3 stopped on request,
4 refused by the engine for good, 5 the disk."""


class _Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are one line with what to do next."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {clean(message, 400)}; see {self.prog} --help", file=sys.stderr)
        raise SystemExit(int(ExitCode.USAGE))


def add_option(parser: argparse.ArgumentParser, option: Option) -> None:
    """Add one row of the options table to a parser; an option not given stays absent."""
    if option.switch:
        parser.add_argument(
            option.flag, action="store_true", default=argparse.SUPPRESS, help=option.help, dest=option.name
        )
        return
    parser.add_argument(
        option.flag,
        metavar=option.metavar,
        action="append" if option.many else "store",
        default=argparse.SUPPRESS,
        help=option.help,
        dest=option.name,
    )


def read_options(given: Mapping[str, Any], environment: Mapping[str, str]) -> Options:
    """Options from a parsed command line, else from `EAGLE3_…` variables, else the defaults.

    Raises OperatorError (usage) naming the flag or variable whose value is not allowed.
    """
    values: dict[str, Any] = {}
    for option in TABLE:
        if option.side != "both":
            continue
        if option.name in given:
            values[option.name] = option.read(given[option.name], option.flag)
        elif environment.get(option.variable):
            values[option.name] = option.read(environment[option.variable], option.variable)
    return Options(**values)


def make_parser(command: str | None = None) -> argparse.ArgumentParser:
    """The parser; only the named command's module is imported, for its own arguments."""
    parser = _Parser(
        prog="eagle3-remote",
        description="Runs on the container: scans, plans, launches, stops and generates.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    for name, (module_name, text) in COMMANDS.items():
        sub = subparsers.add_parser(name, help=text, description=text, epilog=EPILOG)
        sub.add_argument("--debug", action="store_true", help="show the traceback of an error")
        if name == command:
            for option in TABLE:
                if option.side == "both":
                    add_option(sub, option)
            importlib.import_module(module_name).add_arguments(sub)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; results go to stdout, all else to stderr. Returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    command = next((word for word in words if not word.startswith("-")), None)
    parser = make_parser(command if command in COMMANDS else None)
    args = parser.parse_args(words)
    if args.command is None:
        parser.print_help()
        return int(ExitCode.DONE)
    try:
        options = read_options(vars(args), os.environ)
        module = importlib.import_module(COMMANDS[args.command][0])
        return int(module.run(options, args))
    except OperatorError as error:
        if args.debug:
            raise
        print(f"eagle3-remote: {clean(error, 2000)}", file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        print("eagle3-remote: interrupted", file=sys.stderr)
        return int(ExitCode.STOPPED if args.command == "generate" else ExitCode.FAILED)
    except BrokenPipeError:
        # The reader of our stdout is gone; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return int(ExitCode.FAILED)
    except MemoryError:
        print("eagle3-remote: out of memory; free some on the container and try again", file=sys.stderr)
        return int(ExitCode.FAILED)
    except Exception as error:
        if args.debug:
            raise
        kind = type(error).__name__
        print(
            f"eagle3-remote: {args.command} failed unexpectedly ({kind}: {clean(error, 300)}); "
            "run it again with --debug and report what it prints",
            file=sys.stderr,
        )
        return int(ExitCode.FAILED)
