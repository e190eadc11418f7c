"""`audit`: who did what, when, and what came of it."""

from __future__ import annotations

import sys
import time
from typing import Any

from console.commands.output import print_json, put
from console.session import open_session
from console.settings import Settings
from console.text import moment
from remote.exitcodes import ExitCode
from remote.text import clean


async def main(settings: Settings, *, as_json: bool, limit: int) -> ExitCode:
    """Print the last entries, the newest at the end; as JSON newest first, as the container keeps them."""
    async with open_session(settings) as controller:
        entries = await controller.call("audit", {"limit": limit})
    if as_json:
        print_json(entries)
        return ExitCode.DONE
    if not entries:
        put("nobody has done anything here yet", sys.stdout)
    now = time.time()
    for entry in reversed(entries):
        put(_line(entry, now), sys.stdout)
    return ExitCode.DONE


def _line(entry: dict[str, Any], now: float) -> str:
    who = entry.get("who") or entry.get("by") or ""
    if isinstance(who, dict):
        who = f"{who.get('user')}@{who.get('host')}"
    words = [entry.get("action"), entry.get("outcome"), entry.get("detail") or entry.get("text")]
    told = "  ".join(clean(word, 300) for word in words if word)
    return f"{moment(entry.get('at'), now)}  {clean(who, 60)}  {told}"
