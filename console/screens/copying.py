"""Copying out of the console: to the clipboard where the terminal takes it, to tmux's buffer, and always to a file."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

from console.screens.base import ConsoleScreen

TMUX_DEADLINE_S = 2.0


def copy_text(screen: ConsoleScreen, text: str) -> None:
    """Copy `text` and say where it went; a terminal that drops it silently must not look like success."""
    if not text.strip():
        screen.say("there is nothing to copy here", "warning")
        return
    screen.run_worker(_copy(screen, text), name="copy", group="copy", exclusive=True, exit_on_error=False)


async def _copy(screen: ConsoleScreen, text: str) -> None:
    try:
        path = await asyncio.to_thread(_keep, text)
    except OSError as error:
        screen.app.copy_to_clipboard(text)
        screen.say(
            f"sent to the terminal's clipboard alone: {copy_path()} cannot be written: {error.strerror}", "warning"
        )
        return
    if os.environ.get("TMUX") and shutil.which("tmux"):
        # tmux drops OSC 52 unless its set-clipboard allows it; its own buffer always works.
        if await _into_tmux(text):
            screen.say(f"copied to tmux's buffer (prefix ] pastes) and to {path}")
        else:
            screen.say(f"tmux did not take it; it is in {path}", "warning")
        return
    screen.app.copy_to_clipboard(text)
    screen.say(f"sent to the terminal's clipboard; where it takes none, it is in {path}")


async def _into_tmux(text: str) -> bool:
    try:
        async with asyncio.timeout(TMUX_DEADLINE_S):
            process = await asyncio.create_subprocess_exec(
                "tmux",
                "load-buffer",
                "-w",
                "-",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
            await process.communicate(text.encode())
    except (OSError, TimeoutError):
        return False
    return process.returncode == 0


def copy_path() -> Path:
    """The file that holds what was copied last; one a user, private."""
    return Path(tempfile.gettempdir()) / f"eagle3-console-copy-{os.getuid()}.txt"


def _keep(text: str) -> Path:
    path = copy_path()
    # Never through a link that somebody else put there.
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text if text.endswith("\n") else f"{text}\n")
    return path
