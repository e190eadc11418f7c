"""`agent`: serves one console on stdin and stdout until the console is gone. Changes nothing unless it is told to.

It starts with Python alone. Looks run in threads of their own (`rounds`), requests too
(`rpc_server`), updates go out as differences (`publisher`); so nothing that hangs on the
container, and no request however slow, keeps a ping from being answered. The methods are a third
of all imports and are imported once the first snapshot is out. What it launched or was
told to stop or tokenize goes on without it; everything else it started ends with it. A change
that it was asked for and that is still at work is carried through first, and put into the audit.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from remote import procfs, protocol
from remote.exitcodes import ExitCode
from remote.options import Options
from remote.outbox import Outbox
from remote.params import Params
from remote.publisher import Publisher
from remote.rpc_server import SILENCE_S, Handler, RpcServer
from remote.session import Session
from remote.unfinished import Unfinished

FLUSH_S = 1.0
UNFINISHED_S = 360.0
"""So long an agent without a console sees a change through: a launch has its checks and `HANDSHAKE_S`, a stop its drain."""

LOOKING = ("plan", "preflight", "log", "dataset", "row", "history")
"""Methods of `methods_look`, which only look; each is answered from a thread of its own."""

CHANGING = ("launch", "stop", "kill_stray", "control", "retokenize", "note", "hold", "ack")
"""Methods of `methods_act`, which change something; `audit` is one of them when it is given an entry to add."""

GOES_ON = frozenset({"launch", "stop", "retokenize"})
"""Commands of ours that an ending agent leaves to themselves."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument(
        "--marker", default="eagle3", help="word that begins the first line, so that noise before it is known"
    )
    parser.add_argument("--silence-s", type=float, default=SILENCE_S, help=argparse.SUPPRESS)


def run(options: Options, args: argparse.Namespace) -> ExitCode:
    """Serve until the console is gone, then end at once."""
    in_fd, out_fd = _take_pipes()
    agent = Agent(in_fd, out_fd, args.silence_s)
    reason = agent.serve(args.marker)
    print(f"eagle3-remote agent: {reason}", file=sys.stderr, flush=True)
    # A watch may hang in the kernel (a dead NFS server): the interpreter must not wait for its thread.
    os._exit(int(ExitCode.DONE))


def _take_pipes() -> tuple[int, int]:
    """Our own copies of stdin and stdout; from here on a stray print goes to stderr and no child eats requests."""
    in_fd, out_fd = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return in_fd, out_fd


class Agent:
    """Wires session, server and publisher together."""

    def __init__(self, in_fd: int, out_fd: int, silence_s: float = SILENCE_S) -> None:
        self._outbox = Outbox(out_fd, lambda why: self._server.end(f"nothing can be sent: {why}"))
        self._session = Session(lambda: self._publisher.news())
        self._publisher = Publisher(
            self._outbox,
            lambda: self._session.rounds.snapshot(),
            lambda: self._session.rounds.presentable(),
            after_first=after_first,
        )
        self._unfinished = Unfinished()
        self._server = RpcServer(
            in_fd,
            self._outbox,
            quick={
                "ping": lambda params: {"at": time.time()},
                "hello": self._hello,
                "options": self._options,
                "resync": self._resync,
                "bye": self._bye,
            },
            slow={
                **{name: self._looking(name) for name in LOOKING},
                **{name: self._changing(name) for name in CHANGING},
                "audit": self._audit,
            },
            silence_s=silence_s,
        )

    def serve(self, marker: str) -> str:
        """Say ready, serve, and clean up; returns why it ended."""
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, lambda number, frame: self._server.end(f"signal {signal.Signals(number).name}"))
        self._outbox.send(protocol.ready_line(marker, {**self._session.greeting(), "protocol": protocol.VERSION}))
        reason = self._server.serve()
        self._publisher.stop()
        self._outbox.finish(FLUSH_S)
        # Half a restart is the worst of all ends, and who did it must be on record; the helpers alone would keep no audit.
        self._unfinished.wait(UNFINISHED_S)
        self._session.close()
        end_children()
        return reason

    # -- quick methods ----------------------------------------------------------

    def _hello(self, params: dict[str, Any]) -> dict[str, Any]:
        self._session.aim(Params(params).options())
        self._publisher.start()
        return self._session.greeting()

    def _options(self, params: dict[str, Any]) -> dict[str, Any]:
        self._session.aim(Params(params).options())
        self._publisher.news()
        return {"options": self._session.options.to_json()}

    def _resync(self, params: dict[str, Any]) -> dict[str, Any]:
        self._publisher.resync()
        return {}

    def _bye(self, params: dict[str, Any]) -> dict[str, Any]:
        self._server.end("the console said good-bye")
        return {}

    # -- slow ones --------------------------------------------------------------

    def _looking(self, name: str) -> Handler:
        return lambda params: _method("methods_look", name)(self._session, Params(params))

    def _changing(self, name: str) -> Handler:
        def handler(params: dict[str, Any]) -> Any:
            self._session.refuse_if_read_only(name)
            with self._unfinished.one():
                return _method("methods_act", name)(self._session, Params(params))

        return handler

    def _audit(self, params: dict[str, Any]) -> Any:
        if params.get("add") is None:
            return _method("methods_look", "audit_entries")(self._session, Params(params))
        self._session.refuse_if_read_only("audit")
        with self._unfinished.one():
            return _method("methods_act", "add_entry")(self._session, Params(params))


def _method(module: str, name: str) -> Callable[[Session, Params], Any]:
    """A method, its module imported now if nothing has needed it yet."""
    found: Callable[[Session, Params], Any] = getattr(importlib.import_module(f"remote.{module}"), name)
    return found


def after_first() -> None:
    """What can wait until the first snapshot is out."""
    import_methods()
    with contextlib.suppress(ImportError):
        importlib.import_module("remote.old_programs").remove_old_programs()


def import_methods() -> None:
    """Import all methods as soon as the first snapshot is out: whoever tidies a cache folder later takes nothing from us."""
    for module in ("methods_look", "methods_act"):
        # An archive that is gone already is told to whoever calls a method.
        with contextlib.suppress(ImportError, OSError):
            importlib.import_module(f"remote.{module}")


def end_children() -> None:
    """Kill what this process started and has not ended, except what is to go on by itself."""
    mine = os.getpid()
    for stat in list(procfs.stats()):
        if stat.ppid != mine or stat.dead or GOES_ON & set(procfs.read_argv(stat.pid)):
            continue
        try:
            # It is our child and not reaped: the pid cannot have become another's.
            os.killpg(stat.pid, signal.SIGKILL)
        except ProcessLookupError:
            os.kill(stat.pid, signal.SIGKILL)
        except PermissionError:
            continue
