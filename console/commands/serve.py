"""`serve`: the console in a browser, on this machine alone unless a token is asked for."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from console.demo_target import aim
from console.session import say
from console.settings import Settings
from console.web_guard import Guard, is_loopback, read_token
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.options import TABLE


async def main(settings: Settings, *, host: str, port: int, token_file: str | None) -> ExitCode:
    """Serve until a signal. Raises OperatorError for an address that others reach and that asks for no token."""
    if settings.target is not None:
        aim(settings)
    if not is_loopback(host) and token_file is None:
        raise OperatorError(
            "usage",
            f"{host} is reached by others, and whoever opens the console can kill and start processes",
            "give --token-file FILE, or listen on 127.0.0.1 and come through: ssh -L",
            ExitCode.USAGE,
        )
    token = read_token(Path(token_file)) if token_file is not None else None
    from console.web_server import ConsoleServer

    command = _command(click.get_current_context().params)
    title = f"eagle3-console {settings.name}".strip()
    server = ConsoleServer(command, host, port, Guard(token), title)
    return await server.run(lambda: _say_what_is_exposed(settings, host, port, token is not None))


def _command(given: Mapping[str, Any]) -> str:
    """The shell's line that opens the same console for one tab: same program, target and flags."""
    words = [sys.executable, "-m", "console.cli", "open"]
    for option in TABLE:
        value = given.get(option.name)
        if option.switch and value:
            words.append(option.flag)
        elif value and not option.switch:
            words += [f"{option.flag}={item}" for item in (value if option.many else (value,))]
    target = given.get("target")
    return f"exec {shlex.join([*words, '--', target] if target else words)}"


def _say_what_is_exposed(settings: Settings, host: str, port: int, token: bool) -> None:
    shown = f"[{host}]" if ":" in host else host
    say(f"the console on {settings.name or 'your targets'} is at http://{shown}:{port}/ until Ctrl-C")
    may = (
        "look at it, but change nothing (--read-only)"
        if settings.options.read_only
        else "kill and start what runs there"
    )
    if token:
        say(f"exposed: whoever reaches that address and has the token can {may}")
    else:
        say(f"exposed: every account of this machine can {may}; --token-file FILE asks for a token first")
    if not is_loopback(host):
        say("http is not encrypted: put TLS before it, or come through ssh -L, on a network that you do not trust")
    if os.environ.get("EAGLE3_API_KEY"):
        say("the engine's API key is used by it and never shown")
