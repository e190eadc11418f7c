"""Requests in, answers out: reads lines from one descriptor, runs each request in a thread, answers in any order.

A slow request never holds up a quick one, and nothing here can block for ever: reading polls,
and answers go through the `Outbox`.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from remote import protocol
from remote.errors import OperatorError
from remote.outbox import Outbox
from remote.protocol import BadMessage, Request
from remote.text import clean

Handler = Callable[[dict[str, Any]], Any]

MAX_AT_ONCE = 16
SILENCE_S = 60.0
"""A console says something every ten seconds; one that has not for a minute is gone, whatever the network believes."""


class RpcServer:
    """Serves `quick` methods in the reading thread and `slow` ones in threads of their own.

    `serve` returns in words why it ended. Handlers return JSON or raise OperatorError.
    """

    def __init__(
        self,
        in_fd: int,
        outbox: Outbox,
        quick: Mapping[str, Handler],
        slow: Mapping[str, Handler],
        silence_s: float = SILENCE_S,
    ) -> None:
        self._in_fd = in_fd
        self._outbox = outbox
        self._quick = quick
        self._slow = slow
        self._silence_s = silence_s
        self._places = threading.BoundedSemaphore(MAX_AT_ONCE)
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._reason = ""

    def end(self, reason: str) -> None:
        """Make `serve` return; from any thread, and from a signal handler."""
        self._reason = self._reason or reason
        try:
            os.write(self._wake_write, b"x")
        except BlockingIOError:
            return  # it is being woken already

    def serve(self) -> str:
        """Read and answer until the input ends, the console is silent for a minute, or `end` is called."""
        poller = select.poll()
        poller.register(self._in_fd, select.POLLIN)
        poller.register(self._wake_read, select.POLLIN)
        lines = _Lines()
        heard_s = time.monotonic()
        while not self._reason:
            left_s = heard_s + self._silence_s - time.monotonic()
            if left_s <= 0:
                return f"the console said nothing for {self._silence_s:g} s"
            ready = dict(poller.poll(min(left_s, 5.0) * 1000))
            if self._in_fd not in ready:
                continue
            try:
                data = os.read(self._in_fd, 1 << 16)
            except OSError as error:
                return f"the input failed: {error.strerror}"
            if not data:
                return "the console closed the link"
            heard_s = time.monotonic()
            for line in lines.feed(data):
                self._take(line)
        return self._reason

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            request = protocol.parse_request(line)
        except BadMessage as error:
            self._outbox.send(protocol.failure(error.id, error, error.rpc_code))
            return
        quick = self._quick.get(request.method)
        if quick is not None:
            self._answer(request, quick)
            return
        slow = self._slow.get(request.method)
        if slow is None:
            unknown = OperatorError(
                "unknown-method",
                f"the agent knows no method {clean(request.method, 40)!r}",
                "the two ends are of different releases: connect anew to ship this one",
            )
            self._outbox.send(protocol.failure(request.id, unknown, protocol.METHOD_NOT_FOUND))
        elif not self._places.acquire(blocking=False):
            busy = OperatorError("busy", f"{MAX_AT_ONCE} requests are still being worked on", "wait for them")
            self._outbox.send(protocol.failure(request.id, busy))
        else:
            threading.Thread(
                target=self._work, args=(request, slow), name=f"request-{request.method}", daemon=True
            ).start()

    def _work(self, request: Request, handler: Handler) -> None:
        try:
            self._answer(request, handler)
        finally:
            self._places.release()

    def _answer(self, request: Request, handler: Handler) -> None:
        try:
            line = protocol.result(request.id, handler(request.params))
            if len(line) > protocol.MAX_LINE_BYTES:
                raise OperatorError(
                    "too-long", f"the answer to {request.method} has {len(line):,} bytes", "ask for less"
                )
        except OperatorError as error:
            line = protocol.failure(request.id, error)
        except Exception as error:
            # A fault of ours in one request must not end the agent; it is told to whoever asked.
            told = f"{request.method} failed unexpectedly ({type(error).__name__}: {clean(error, 300)})"
            line = protocol.failure(request.id, OperatorError("agent", told, "report it, with the log of the agent"))
        if request.id is not None:
            self._outbox.send(line)


class _Lines:
    """Bytes to lines; a line longer than a message may be is given up as one bad line."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        first, *others = data.split(b"\n")
        if self._size <= protocol.MAX_LINE_BYTES:
            self._parts.append(first)
        self._size += len(first)
        if not others:
            return []
        whole = b"".join(self._parts)
        *lines, rest = others
        self._parts, self._size = [rest], len(rest)
        return [whole, *lines]
