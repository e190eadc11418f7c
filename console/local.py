"""The same pipe without SSH, for a console that runs inside the container: the bootstrap under a local `/bin/sh`.

The agent runs from the stored zip here too, so that editing a checkout never changes what a running process imports.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence

from console.bootstrap import SHELL_ARGV, start_agent
from console.link_errors import LinkLost
from console.pipe import CLOSE_LIMIT_S, AgentPipe, Channel, Noise
from console.ship import Package, package
from remote.errors import OperatorError


class LocalChannel(Channel):
    """A child process of ours, in a session of its own so that the console's Ctrl-C does not reach it."""

    where = "this machine"

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._noise = Noise()
        self._drain = asyncio.create_task(self._drain_errors(), name="local agent's stderr")

    @classmethod
    async def start(cls, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> LocalChannel:
        """Start `argv`. Raises OSError."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, env=environment
        )
        return cls(process)

    async def read(self) -> bytes:
        assert self._process.stdout is not None
        return await self._process.stdout.read(1 << 16)

    async def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            # It ended: whoever reads its output learns how.
            if self._process.returncode is None:
                raise LinkLost(self.where, "it closed its input") from None

    async def close(self) -> None:
        process = self._process
        assert process.stdin is not None
        process.stdin.close()
        for send in (None, signal.SIGTERM, signal.SIGKILL):
            if send is not None and process.returncode is None:
                process.send_signal(send)
            try:
                async with asyncio.timeout(CLOSE_LIMIT_S / 3):
                    await process.wait()
                break
            except TimeoutError:
                continue
        self._drain.cancel()

    async def ending(self) -> str:
        try:
            async with asyncio.timeout(CLOSE_LIMIT_S):
                code = await self._process.wait()
                await asyncio.wait([self._drain], timeout=CLOSE_LIMIT_S)
        except TimeoutError:
            return "it closed its output"
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"

    def errors(self) -> Sequence[str]:
        return self._noise.lines()

    async def _drain_errors(self) -> None:
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(1 << 14):
            self._noise.feed(data)


async def connect_local(
    *,
    python: str | None = None,
    on_stage: Callable[[str], None] = lambda stage: None,
    shipped: Package | None = None,
    arguments: Sequence[str] = ("agent",),
    environment: Mapping[str, str] | None = None,
) -> AgentPipe:
    """Start the agent on this machine. Raises LinkError, or OperatorError without a `/bin/sh`."""
    try:
        channel = await LocalChannel.start(SHELL_ARGV, environment or os.environ)
    except OSError as error:
        raise OperatorError("no-shell", f"/bin/sh cannot be started here: {error.strerror}") from None
    try:
        wanted = python or sys.executable
        parcel = await asyncio.to_thread(package) if shipped is None else shipped
        return await start_agent(channel, parcel, python=wanted, arguments=arguments, on_stage=on_stage)
    except BaseException:
        await channel.close()
        raise
