"""The smallest HTTP/1.1 server the stand-in engine needs: asyncio and nothing else, keep-alive as SGLang's.

One handler takes a `Request` and returns a `Response`, or `None` to close the connection without an answer, as a
process that died does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus

KEEP_ALIVE_S = 5.0
"""How long an idle connection is kept: uvicorn's default, and so SGLang's."""
_LARGEST_BODY_BYTES = 64 << 20


@dataclass(frozen=True)
class Request:
    """One request: upper-case method, path without its query, lower-case header names, the whole body."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Response:
    """What is answered; `close` ends the connection after it."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    close: bool = False
    headers: dict[str, str] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The response on the wire."""
        try:
            phrase = HTTPStatus(self.status).phrase
        except ValueError:
            phrase = "Unknown"
        lines = [
            f"HTTP/1.1 {self.status} {phrase}",
            "server: uvicorn",
            f"content-length: {len(self.body)}",
            *(f"{name}: {value}" for name, value in self.headers.items()),
        ]
        if self.body:
            lines.append(f"content-type: {self.content_type}")
        if self.close:
            lines.append("connection: close")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + self.body


def json_response(value: object, status: int = 200, close: bool = False) -> Response:
    """A value as JSON; `close` ends the connection after it."""
    return Response(status, json.dumps(value).encode(), close=close)


Handler = Callable[[Request], Awaitable[Response | None]]
Routes = dict[tuple[str, str], Handler]
"""Handlers by method and path."""


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    """The next request of a connection, `None` at its end. Raises ValueError on what is no HTTP."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return None
    first, *rest = head.decode("latin-1").split("\r\n")
    method, target, _version = first.split(" ", 2)
    headers: dict[str, str] = {}
    for line in rest:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    length = int(headers.get("content-length", "0"))
    if not 0 <= length <= _LARGEST_BODY_BYTES:
        raise ValueError("content-length")
    body = await reader.readexactly(length) if length else b""
    return Request(method.upper(), target.partition("?")[0], headers, body)


async def _converse(handler: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        try:
            request = await asyncio.wait_for(_read_request(reader), KEEP_ALIVE_S)
        except (TimeoutError, ValueError, asyncio.IncompleteReadError):
            return
        if request is None:
            return
        response = await handler(request)
        if response is None:
            return
        writer.write(response.to_bytes())
        await writer.drain()
        if response.close or request.headers.get("connection", "").lower() == "close":
            return


async def serve(handler: Handler, host: str, port: int) -> asyncio.Server:
    """Listen; port 0 takes a free one. Raises OSError."""

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _converse(handler, reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    return await asyncio.start_server(connection, host, port, limit=1 << 20, backlog=1024)
