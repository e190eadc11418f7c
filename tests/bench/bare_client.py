"""The least that a client can do: raw HTTP over kept connections, orjson, one task a request. What the run's client is
compared with."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson


class BareClient:
    """Requests over as many connections as are in flight."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def generate(self, value: dict[str, Any]) -> dict[str, Any]:
        """One answer, parsed."""
        body = orjson.dumps(value)
        reader, writer = (
            self._idle.pop() if self._idle else await asyncio.open_connection(*self._address, limit=1 << 22)
        )
        head = f"POST /generate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
        answer: dict[str, Any] = orjson.loads(await reader.readexactly(length))
        self._idle.append((reader, writer))
        return answer

    def close(self) -> None:
        """Close every connection."""
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()
