"""`watch`: a line per change, for logs and pipes; with `--notify` it also tells the addresses of the settings.

It ends when it is asked to, by Ctrl-C, SIGTERM or SIGHUP, and not because a link was lost.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time

from console.clock import steady_s
from console.commands.output import put
from console.controller import Controller
from console.heartbeat import Heartbeat
from console.postman import Place, Postman
from console.session import FIRST_LOOK_DEADLINE_S, open_lasting, say
from console.settings import Settings
from console.terminal import last_line
from console.told_file import ToldFile
from console.view import LinkState, View
from console.watch_lines import Event, Watcher
from remote.errors import OperatorError
from remote.exitcodes import ExitCode

KNOCK_AGAIN_S = 300.0
"""After a failure that asks for a person (a changed host key): they may mend it without telling this watch."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def main(settings: Settings, *, as_json: bool, notifying: bool) -> ExitCode:
    """Print what changes until a signal. Raises OperatorError when the first connection fails for good."""
    tellers = _tellers(settings) if notifying else []
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        # Under nohup SIGHUP is ignored on purpose.
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, ended.set)
    async with open_lasting(settings) as controller:
        try:
            for teller in tellers:
                teller.start()
            watching = asyncio.create_task(_watch(controller, as_json, tellers, patient=notifying), name="watch")
            ending = asyncio.create_task(ended.wait(), name="watch-end")
            await asyncio.wait((watching, ending), return_when=asyncio.FIRST_COMPLETED)
            ending.cancel()
            if watching.done():
                watching.result()
            watching.cancel()
        finally:
            for teller in tellers:
                await asyncio.to_thread(teller.close)
        view = controller.view
    say(last_line(view).removeprefix("eagle3-console "))
    return ExitCode.DONE


def _tellers(settings: Settings) -> list[Postman | Heartbeat]:
    """Who is told: each address of `notify`, and the heartbeat. Raises OperatorError when there is none."""
    target, hooks = settings.target, settings.options.notify
    if not hooks and settings.heartbeat is None:
        raise OperatorError(
            "no-address",
            "there is no address to post to",
            f'set notify = ["https://…"] in the profile ({settings.path}), or EAGLE3_NOTIFY',
            ExitCode.USAGE,
        )
    place = Place(settings.name, str(target), settings.options.root)
    tellers: list[Postman | Heartbeat] = [Postman(hook, place, ToldFile(str(place), hook), say) for hook in hooks]
    if settings.heartbeat is not None:
        tellers.append(Heartbeat(settings.heartbeat, settings.heartbeat_s, say))
    return tellers


async def _watch(controller: Controller, as_json: bool, tellers: list[Postman | Heartbeat], *, patient: bool) -> None:
    await _first_look(controller, patient)
    views: asyncio.Queue[View] = asyncio.Queue()
    unsubscribe = controller.subscribe(views.put_nowait)
    watcher = Watcher()
    try:
        view = controller.view
        knocked_s = steady_s()
        while True:
            for event in watcher.step(view):
                _tell(event, view, as_json)
            sys.stdout.flush()
            for teller in tellers:
                teller.look(view)
            if view.link.next_try_at is None and _waits_for_a_person(view):
                if steady_s() - knocked_s > KNOCK_AGAIN_S:
                    knocked_s = steady_s()
                    controller.reconnect_now()
            else:
                knocked_s = steady_s()
            view = await views.get()
    finally:
        unsubscribe()


def _waits_for_a_person(view: View) -> bool:
    return view.link.state in (LinkState.FAILED, LinkState.UNKNOWN_KEY, LinkState.CHANGED_KEY)


async def _first_look(controller: Controller, patient: bool) -> None:
    """Wait for the first snapshot, so that a mistyped target ends the command; a patient watch outlasts an outage."""
    try:
        await controller.ready(FIRST_LOOK_DEADLINE_S)
    except OperatorError as error:
        if not patient or _waits_for_a_person(controller.view):
            raise
        say(f"{error}; trying again until it works")


def _tell(event: Event, view: View, as_json: bool) -> None:
    if as_json:
        print(json.dumps(event.to_json(view.now), ensure_ascii=False))
    else:
        put(f"{time.strftime('%H:%M:%S', time.gmtime(view.container_now))}  {event.sentence}", sys.stdout)
