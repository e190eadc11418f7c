"""`watch`: a line per change, for logs and pipes."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import NoReturn

from console.commands.output import put
from console.session import open_session
from console.settings import Settings
from console.view import View
from console.watch_lines import Event, Watcher


async def main(settings: Settings, *, as_json: bool) -> NoReturn:
    """Print what changes until Ctrl-C."""
    async with open_session(settings) as controller:
        views: asyncio.Queue[View] = asyncio.Queue()
        unsubscribe = controller.subscribe(views.put_nowait)
        watcher = Watcher()
        try:
            view = controller.view
            while True:
                for event in watcher.step(view):
                    _tell(event, view, as_json)
                sys.stdout.flush()
                view = await views.get()
        finally:
            unsubscribe()


def _tell(event: Event, view: View, as_json: bool) -> None:
    if as_json:
        print(json.dumps(event.to_json(view.now), ensure_ascii=False))
    else:
        put(f"{time.strftime('%H:%M:%S', time.gmtime(view.container_now))}  {event.sentence}", sys.stdout)
