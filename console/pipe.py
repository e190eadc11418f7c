"""The pipe to the agent: lines in, bytes out, the same over SSH and without it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from console.link_errors import AgentDied, LinkError, LinkLost
from remote.protocol import MAX_LINE_BYTES
from remote.text import clean

WRITE_LIMIT_S = 10.0
CLOSE_LIMIT_S = 0.5


class Channel(Protocol):
    """A program running over there: its input, its output and how it ended."""

    where: str
    """The peer, as a message names it."""

    async def read(self) -> bytes:
        """The next bytes of its output, of any size; empty at the end. Raises LinkError when the link is lost."""

    async def write(self, data: bytes) -> None:
        """Send to its input, waiting while it does not read. Raises LinkError when the link is lost."""

    async def close(self) -> None:
        """End it and the link to it; never waits for a frozen peer."""

    async def ending(self) -> str:
        """How it ended, for a message: `exit status 1`, `killed by KILL`. Asked after `read` returned empty.

        Raises LinkLost when the link ended and nobody knows.
        """

    def errors(self) -> Sequence[str]:
        """The last lines of its error output, cleaned."""


class Noise:
    """The last lines of text that is not ours, cleaned and bounded."""

    def __init__(self, limit: int = 50) -> None:
        self._lines: deque[str] = deque(maxlen=limit)
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take output as it comes."""
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:4096]
        for line in lines:
            self.add(line)

    def add(self, line: bytes) -> None:
        """Take one line; blank ones are dropped."""
        text = clean(line.rstrip(b"\r")).strip()
        if text:
            self._lines.append(text)

    def lines(self) -> list[str]:
        """What is kept, oldest first, an unfinished last line included."""
        last = clean(self._rest).strip()
        return [*self._lines, last] if last else list(self._lines)


class LineSplitter:
    """Bytes in, whole lines out; a line beyond the limit is dropped whole and counted, and the next one is good."""

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False
        self.dropped = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes, without their newlines."""
        first, *others = data.split(b"\n")
        self._hold(first)
        if not others:
            return []
        lines = [] if self._skipping else [b"".join(self._parts)]
        *whole, rest = others
        lines += [line for line in whole if len(line) <= self._limit]
        self.dropped += sum(len(line) > self._limit for line in whole)
        self._parts, self._size, self._skipping = [], 0, False
        self._hold(rest)
        return lines

    def rest(self) -> bytes:
        """What came after the last newline."""
        return b"".join(self._parts)

    def _hold(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._limit and not self._skipping:
            self._skipping = True
            self.dropped += 1
        if self._skipping:
            self._parts = []
        elif part:
            self._parts.append(part)


class AgentPipe:
    """A started agent: `read_line`, `write`, `close`, and what is known of it.

    `noise` is what the login shell printed before the agent's first line; `ready` what the agent
    said of itself there; `python` and `release` its version and ours; `place` where the zip lies
    on the container, None when only in memory; `sent` whether it had to be sent.
    """

    def __init__(
        self,
        channel: Channel,
        splitter: LineSplitter,
        pending: Sequence[bytes],
        *,
        ready: Mapping[str, Any],
        noise: Sequence[str],
        python: str,
        release: str,
        place: str | None,
        sent: bool,
    ) -> None:
        self.peer = channel.where
        self.ready = ready
        self.noise = tuple(noise)
        self.python = python
        self.release = release
        self.place = place
        self.sent = sent
        self._channel = channel
        self._splitter = splitter
        self._lines = deque(pending)

    async def read_line(self) -> bytes:
        """The next line that is not blank, without its newline. Safe to cancel.

        Raises AgentDied when the agent ended, LinkLost when the link did; has no deadline of its
        own, since a dead link is found by keepalive and a silent agent by the caller's pings.
        """
        while True:
            while self._lines:
                line = self._lines.popleft()
                if line.strip():
                    return line
            data = await self._channel.read()
            if not data:
                raise await self._ended()
            self._lines.extend(self._splitter.feed(data))

    async def write(self, data: bytes) -> None:
        """Send bytes. Raises LinkLost, also when the peer takes nothing for ten seconds."""
        try:
            async with asyncio.timeout(WRITE_LIMIT_S):
                await self._channel.write(data)
        except TimeoutError:
            raise LinkLost(self.peer, f"it took nothing for {WRITE_LIMIT_S:g} s") from None

    async def close(self) -> None:
        """End the agent and the link. Takes at most half a second, also with a frozen peer."""
        await self._channel.close()

    def errors(self) -> Sequence[str]:
        """The last lines that the agent printed to its error output, cleaned."""
        return self._channel.errors()

    async def _ended(self) -> LinkError:
        how = await self._channel.ending()
        return AgentDied(self.peer, how, self._channel.errors())
