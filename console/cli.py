"""The command line of `eagle3-console`: parses, checks for a terminal, picks the mode.

Imports neither Textual nor asyncssh nor asyncio, so that `--help` answers in a blink; each subcommand's
module is imported when it is called. The options come from the one table of `remote.options`.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import click

from console.completing import ConsoleGroup, complete_target
from remote import __version__
from remote.errors import OperatorError
from remote.exitcodes import CheckCode, ExitCode
from remote.options import TABLE
from remote.text import clean

_FLAGS = tuple(option for option in TABLE if option.side != "profile")
"""Those that may be typed; the others are secrets, which a process list would show."""

PROGRAM = "eagle3-console"
_SHORT_EPILOG = "Exit codes: 0 done, 1 failed, 2 wrong usage. Nothing remote stops when the console ends."


def _table_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command with every option of the table; one not given stays None."""
    for option in reversed(_FLAGS):
        attributes: dict[str, Any] = {"help": option.help, "default": None}
        if option.switch:
            attributes["is_flag"] = True
        else:
            attributes["metavar"] = option.metavar
        if option.many:
            attributes["multiple"] = True
        command = click.option(option.flag, option.name, **attributes)(command)
    return click.option("--debug", is_flag=True, help="show the transcript of the link and tracebacks; no secrets")(
        command
    )


def _given(parameters: dict[str, Any]) -> dict[str, Any]:
    """Take the table's options that were given out of a command's parameters."""
    names = {option.name for option in _FLAGS}
    taken = {name: parameters.pop(name) for name in list(parameters) if name in names}
    return {name: value for name, value in taken.items() if value is not None and value != ()}


def _run(module: str, parameters: dict[str, Any]) -> int:
    """Load the settings and run one subcommand's `main(settings, **parameters)`."""
    import asyncio  # half of what --help would import

    from console.settings import load_settings

    debug = parameters.pop("debug", False)
    target = parameters.pop("target", None)
    settings = load_settings(target, _given(parameters), os.environ)
    if debug:
        from console.transcript import default_file, start_transcript

        os.environ["EAGLE3_DEBUG"] = "1"
        # A screen owns the terminal: there the transcript goes to a file.
        path = default_file() if module == "open_console" else None
        start_transcript(path)
        if path is not None:
            print(f"eagle3-console: the transcript is in {path}", file=sys.stderr)
    work = importlib.import_module(f"console.commands.{module}").main(settings, **parameters)
    return int(asyncio.run(work) if asyncio.iscoroutine(work) else work)


@click.version_option(__version__, prog_name=PROGRAM)
def _group() -> None:
    """Watch, explain, kill and restart EAGLE-3 data generation on a GPU container.

    TARGET is a profile of the settings, [user@]host[:port], an alias of ~/.ssh/config, a pasted "ssh …" command in
    quotes, or local. Without a subcommand the console opens.
    """


cli: click.Group = ConsoleGroup(
    PROGRAM,
    default="open",
    default_if_no_args=True,
    callback=_group,
    params=_group.__click_params__,  # type: ignore[attr-defined]
    help=_group.__doc__,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=_SHORT_EPILOG,
)


def _command(name: str, module: str, *, hidden: bool = False) -> Callable[..., Any]:
    """Register a subcommand that runs `console.commands.MODULE`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(**parameters: Any) -> int:
            return _run(module, parameters)

        wrapped: Callable[..., Any] = call
        wrapped.__doc__ = function.__doc__
        wrapped.__click_params__ = list(getattr(function, "__click_params__", []))  # type: ignore[attr-defined]
        wrapped = _table_options(wrapped)
        wrapped = click.argument("target", required=False, shell_complete=complete_target)(wrapped)
        registered: Callable[..., Any] = cli.command(name, hidden=hidden, epilog=_SHORT_EPILOG)(wrapped)
        return registered

    return decorate


@_command("open", "open_console", hidden=True)
def _open() -> None:
    """Open the console on TARGET."""


@_command("status", "status")
@click.option("--json", "as_json", is_flag=True, help="print the facts as JSON")
@click.option("--prometheus", is_flag=True, help="print metrics for a textfile collector")
@click.option(
    "--check", is_flag=True, help="exit 0 ok, 1 warning, 2 critical, 3 unreachable, unreadable or wrong usage"
)
def _status() -> None:
    """One look, no screen."""


@_command("watch", "watch")
@click.option("--json", "as_json", is_flag=True, help="a JSON object a line")
@click.option(
    "--notify",
    "notifying",
    is_flag=True,
    help="post alerts to the notify addresses of the settings, and keep their heartbeat",
)
def _watch() -> None:
    """A line per change, for logs and pipes; ends with Ctrl-C."""


@_command("trace", "trace")
@click.option("--json", "as_json", is_flag=True, help="print the plan as JSON")
@click.option("--out", type=click.Path(dir_okay=False), help="keep the plan in FILE, for restart --plan")
@click.option("--full", is_flag=True, help="show every rule that was looked at")
def _trace() -> None:
    """The dry run: what a restart would do to each dataset, and why. Changes nothing."""


@_command("restart", "restart")
@click.option("--yes", is_flag=True, help="do not ask")
@click.option(
    "--plan", "plan_file", type=click.Path(dir_okay=False), help="refuse if the state differs from the kept plan"
)
@click.option("--kill-pid", "kill_pids", type=int, multiple=True, help="a process it did not launch, to be killed")
def _restart() -> None:
    """Stop what runs, ship, and launch with the budget; shows the trace and asks."""


@_command("kill", "kill")
@click.option(
    "--drain", "mode", flag_value="drain", default=True, help="finish what is in flight, for --drain-s (default)"
)
@click.option("--now", "mode", flag_value="now", help="cancel and abort, flush, exit")
@click.option("--force", "mode", flag_value="force", help="SIGKILL to all of it")
@click.option("--pid", type=int, help="a process it did not launch")
@click.option("--yes", is_flag=True, help="do not ask")
def _kill() -> None:
    """Stop the generator, or a process that was not launched by this console."""


@_command("retokenize", "retokenize")
@click.option("--yes", is_flag=True, help="do not ask")
def _retokenize() -> None:
    """Rebuild tokenized_data.jsonl where it is needed."""


@_command("logs", "logs")
@click.option("-n", "--lines", type=click.IntRange(1), default=50, show_default=True, help="how many of the last lines")
@click.option("-f", "--follow", is_flag=True, help="go on with new lines until Ctrl-C")
def _logs() -> None:
    """The generator's log."""


@_command("doctor", "doctor")
@click.option("--json", "as_json", is_flag=True, help="print the checks as JSON")
def _doctor() -> None:
    """Preflight: everything that a restart needs, each with its remedy."""


@_command("audit", "audit")
@click.option("--json", "as_json", is_flag=True, help="print the entries as JSON")
@click.option(
    "-n", "--limit", type=click.IntRange(1), default=50, show_default=True, help="how many of the last entries"
)
def _audit() -> None:
    """Who did what, when, and what came of it."""


@_command("report", "report")
@click.option("--json", "as_json", is_flag=True, help="print the report as JSON")
def _report() -> None:
    """What the last plan said and what was done, per dataset."""


@_command("serve", "serve")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="address to listen on; others than loopback need --token-file",
)
@click.option("--port", type=click.IntRange(1, 65535), default=8300, show_default=True, help="port to listen on")
@click.option("--token-file", type=click.Path(dir_okay=False), help="file with the token that a browser must show")
def _serve() -> None:
    """The console in a browser."""


@cli.command("demo", epilog=_SHORT_EPILOG)
@click.option(
    "--container-only", is_flag=True, help="start the container without a screen and print how to reach it as JSON"
)
@click.option("--stop", is_flag=True, help="stop the container and everything in it")
@click.option("--reset", is_flag=True, help="begin again in the state of the incident")
@click.option("--debug", is_flag=True, help="show tracebacks")
def _demo(**parameters: Any) -> int:
    """The console on an embedded stand-in container in the state of the incident; nothing to configure."""
    parameters.pop("debug")
    return int(importlib.import_module("console.commands.demo").main(**parameters))


def _refuse(text: str, code: ExitCode, words: Sequence[str]) -> int:
    """One line on stderr, and the exit status. A check has its own scale, and its reader sees stdout only."""
    print(f"eagle3-console: {text}", file=sys.stderr)
    if "--check" not in words:
        return int(code)
    if "--json" not in words and "--prometheus" not in words:
        print(f"{CheckCode.UNKNOWN.name}: {text}")
    return int(CheckCode.UNKNOWN)


def _interrupted(words: Sequence[str]) -> int:
    return _refuse("interrupted; nothing on the container was stopped by that", ExitCode.INTERRUPTED, words)


def run(words: Sequence[str]) -> int:
    """Parse and run; every failure is one line on stderr. Returns the exit status."""
    debug = "--debug" in words
    try:
        code = cli.main(args=list(words), prog_name=PROGRAM, standalone_mode=False)
        return int(code) if isinstance(code, int) else int(ExitCode.DONE)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.Abort as abort:
        # click makes this of Ctrl-C too, and that may come when much was changed already.
        if isinstance(abort.__cause__, KeyboardInterrupt):
            return _interrupted(words)
        return _refuse("not confirmed; nothing was changed", ExitCode.FAILED, words)
    except click.UsageError as error:
        context = f"; see {error.ctx.command_path} --help" if error.ctx else ""
        return _refuse(f"{clean(error.format_message(), 400).rstrip('.')}{context}", ExitCode.USAGE, words)
    except click.ClickException as error:
        return _refuse(clean(error.format_message(), 400), ExitCode.USAGE, words)
    except OperatorError as error:
        if debug:
            traceback.print_exc()
        return _refuse(clean(error, 2000), error.exit_code, words)
    except KeyboardInterrupt:
        return _interrupted(words)
    except BrokenPipeError:
        # The reader of our stdout is gone; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return int(ExitCode.FAILED)
    except Exception as error:
        if debug:
            raise
        why = f"{type(error).__name__}: {clean(error, 300)}"
        advice = "run it again with --debug and report what it prints"
        return _refuse(f"it failed unexpectedly ({why}); {advice}", ExitCode.FAILED, words)


def main() -> None:
    """The entry of the installed program."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
