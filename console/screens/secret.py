"""Asks the operator for a passphrase or a password while a link is being opened."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from textual.app import App
from textual.widget import Widget
from textual.widgets import Input

from console.screens.asking import AskText
from remote.text import clean
from widgets.paragraph import Paragraph
from widgets.tones import DIM


class AskSecret(AskText):
    """A line that is not shown; returns it, "" when it was left empty, None when it was cancelled."""

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(clean(kind, 60), f"for {clean(what, 300)}")

    def body(self) -> Iterable[Widget]:
        yield Paragraph(self.explanation)
        yield Input(password=True, id="line", compact=True)
        yield Paragraph(
            "Enter gives it, Esc goes on without; it stays in this console's memory and is written nowhere", tone=DIM
        )


async def ask_secret(app: App[Any], kind: str, what: str) -> str | None:
    """Ask on top of whatever screen there is; from any task. None when nobody gave it.

    When whoever asked stops waiting, the dialog goes: an answer given to nobody would mislead.
    """
    dialog = AskSecret(kind, what)
    answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    def take(secret: str | None) -> None:
        if not answer.done():
            answer.set_result(secret)

    # By the app's own queue: a screen is pushed from the app's context, and this may be a link's task.
    app.call_later(app.push_screen, dialog, take)
    try:
        return await answer or None
    finally:
        if dialog.is_running and dialog in app.screen_stack:
            app.call_later(dialog.dismiss, None)
