"""JSON-RPC over a pipe: calls with deadlines, notifications as they come, and one end for everybody waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from remote.errors import OperatorError
from remote.protocol import BadMessage, Notification, Response, parse_from_agent, request

WRITE_DEADLINE_S = 10.0


class LinePipe(Protocol):
    """What a conversation needs of a pipe; `console.pipe.AgentPipe` is one.

    Either direction raises OperatorError when the link or the agent is gone; `read_line` may
    return `b""` at the agent's end instead. `close` never hangs and may be called twice.
    """

    async def read_line(self) -> bytes:
        """The next line."""
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes; returns when they are on their way."""
        ...

    async def close(self) -> None:
        """End the pipe and what carries it."""
        ...


def link_lost(detail: str = "") -> OperatorError:
    """The link ended while somebody was waiting: what was asked for may or may not have been done."""
    because = f": {detail}" if detail else ""
    return OperatorError(
        "link-lost",
        f"the link to the container dropped before the answer came{because}",
        "whether it was done is unknown: look at the state once the link is back",
    )


class Rpc:
    """One conversation with one agent. `run()` reads until the pipe ends; calls may overlap freely."""

    def __init__(self, pipe: LinePipe, on_notification: Callable[[Notification], None]) -> None:
        self._pipe = pipe
        self._on_notification = on_notification
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._last_id = 0
        self._ended: OperatorError | None = None
        self._dropped: OperatorError | None = None
        self._reader: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()
        self.bad_lines = 0
        """Lines from the agent that were no message; counted, and told by whoever shows details."""

    async def run(self) -> None:
        """Read messages until the agent ends or the link fails; every waiting call fails then.

        Returns at the agent's end; raises the link's OperatorError when it failed.
        """
        self._reader = asyncio.current_task()
        reason = link_lost("the agent ended")
        try:
            while line := await self._pipe.read_line():
                self._take(line)
        except OperatorError as error:
            reason = link_lost(error.message)
            raise
        except asyncio.CancelledError:
            if self._dropped is None:
                raise
            reason = link_lost(self._dropped.message)
            raise self._dropped from None
        finally:
            self._end(reason)

    def drop(self, error: OperatorError) -> None:
        """Give the conversation up: `run` raises this error, and so does every waiting call, as `link-lost`."""
        if self._dropped is None and self._reader is not None:
            self._dropped = error
            self._reader.cancel()

    async def call(self, method: str, params: Mapping[str, Any] | None, timeout_s: float) -> Any:
        """One request and its result.

        Raises the agent's OperatorError, `timeout` when no answer came within `timeout_s`, and
        `link-lost` when the link ended first.
        """
        if self._ended is not None:
            raise self._ended
        self._last_id += 1
        id = self._last_id
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[id] = answer
        try:
            async with asyncio.timeout(timeout_s):
                await self._write(request(id, method, dict(params or {})))
                return await answer
        except TimeoutError:
            raise OperatorError(
                "timeout",
                f"the container did not answer {method!r} within {timeout_s:g} s",
                "it may still be at it: look at the state before trying again",
            ) from None
        finally:
            self._waiting.pop(id, None)
            if answer.done() and not answer.cancelled():
                answer.exception()  # taken notice of: nobody may be waiting any more

    async def _write(self, data: bytes) -> None:
        async with self._writing, asyncio.timeout(WRITE_DEADLINE_S):
            await self._pipe.write(data)

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = parse_from_agent(line)
        except BadMessage:
            self.bad_lines += 1
            return
        if isinstance(message, Notification):
            self._on_notification(message)
        else:
            self._settle(message)

    def _settle(self, message: Response) -> None:
        answer = self._waiting.get(message.id) if isinstance(message.id, int) else None
        if answer is None or answer.done():
            return  # its caller has given up
        if message.error is not None:
            answer.set_exception(message.error)
        else:
            answer.set_result(message.result)

    def _end(self, reason: OperatorError) -> None:
        self._ended = reason
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(reason)
