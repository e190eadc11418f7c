"""A TCP proxy in this process that delays, slows or silences what passes: a bad network without any rights."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class DelayProxy:
    """Between a client and `host:port`. Change `delay_s` (each way), `bytes_s` and `silent` at any time."""

    def __init__(self, host: str, port: int) -> None:
        self.port = 0
        self.delay_s = 0.0
        self.bytes_s: float | None = None
        self._behind = (host, port)
        self._flowing = asyncio.Event()
        self._flowing.set()

    def silence(self) -> None:
        """Carry nothing any more, in either direction, without closing anything."""
        self._flowing.clear()

    def heal(self) -> None:
        """Carry everything again, what was held back included."""
        self._flowing.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        behind_reader, behind_writer = await asyncio.open_connection(*self._behind)
        pumps = [self._pump(reader, behind_writer), self._pump(behind_reader, writer)]
        try:
            await asyncio.gather(*pumps)
        except OSError:
            return  # one end is gone, and with it the connection
        finally:
            for one in (writer, behind_writer):
                one.close()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        held: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def deliver() -> None:
            while True:
                due, data = await held.get()
                await asyncio.sleep(max(0.0, due - loop.time()))
                await self._flowing.wait()
                if not data:
                    with contextlib.suppress(OSError):
                        sink.write_eof()
                    return
                if self.bytes_s is not None:
                    await asyncio.sleep(len(data) / self.bytes_s)
                sink.write(data)
                await sink.drain()

        delivering = asyncio.create_task(deliver())
        try:
            while True:
                data = await source.read(4096)
                held.put_nowait((loop.time() + self.delay_s, data))
                if not data:
                    break
            await delivering
        finally:
            delivering.cancel()


@asynccontextmanager
async def delay_proxy(host: str, port: int) -> AsyncIterator[DelayProxy]:
    """A listening proxy on a free port of loopback."""
    proxy = DelayProxy(host, port)
    serving: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        with contextlib.suppress(asyncio.CancelledError):
            await proxy.serve(reader, writer)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
