"""The console itself: checks that there is a terminal, paints, then connects."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any

from console.demo_target import aim
from console.settings import Settings
from remote.errors import OperatorError
from remote.exitcodes import ExitCode


def main(settings: Settings, **flags: Any) -> int:
    """Run the screens until the operator leaves; the exit status. Raises OperatorError without a terminal."""
    if not _in_browser():
        _need_terminal()
    settings = aim(settings)
    # An import makes nothing that could be let go, and looking for it takes a tenth of the time to the first paint.
    gc.disable()
    from console.app import ConsoleApp, run_app
    from console.desk import Desk

    async def open_desk() -> Desk:
        gc.freeze()
        gc.enable()
        # What is slow to import waits until something is painted.
        from console.actions import Actions
        from console.book import TargetBook
        from console.opening import opening_desk
        from console.screens.secret import ask_secret

        async def ask(kind: str, what: str) -> str | None:
            return await ask_secret(app, kind, what)

        book = TargetBook(settings, ask)
        desk = opening_desk(book.current, settings.options, 0.0)
        desk.operations, desk.targets = Actions(settings.api_key), book
        if book.current:
            desk.controller = await book.open(book.current)
        return desk

    app = ConsoleApp(settings.target.name if settings.target else "", settings.options, open_desk)
    return run_app(app)


def _in_browser() -> bool:
    """Whether `serve` started this: then its pipes carry the screen."""
    return os.environ.get("TEXTUAL_DRIVER", "").endswith(":WebDriver")


def _need_terminal() -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        raise OperatorError(
            "no-terminal",
            "the console needs a terminal on its input and output",
            "in a pipe use: eagle3-console status TARGET, or watch TARGET",
            ExitCode.USAGE,
        )
    if os.environ.get("TERM", "dumb") in ("", "dumb"):
        raise OperatorError(
            "no-terminal",
            "TERM says that this terminal cannot place text (dumb)",
            "set TERM, such as TERM=xterm-256color, or use: eagle3-console status TARGET",
            ExitCode.USAGE,
        )
