"""Half a second of latency, 256 kbit/s, and silence: by a proxy in this process, so that every machine can show it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from console import link, link_hop
from console.link_errors import LinkLost
from console.ship import package
from console.target import Target
from tests.link.conftest import Connect
from tests.support.delay_proxy import DelayProxy, delay_proxy
from tests.support.sshd import Server


def through(server: Server, proxy: DelayProxy) -> Target:
    """The server's target by way of the proxy; the key is known under the server's own name."""
    name = f"HostKeyAlias=[127.0.0.1]:{server.port}"
    return replace(server.target(), port=proxy.port, ssh_options=(name,))


async def test_half_a_second_of_latency(server: Server, connected: Connect) -> None:
    async with delay_proxy("127.0.0.1", server.port) as proxy:
        proxy.delay_s = 0.25
        async with connected(through(server, proxy)) as pipe:
            # Many lines on their way at once: the latency is paid once, not for each.
            await pipe.write(b"".join(b"%d\n" % n for n in range(200)))
            async with asyncio.timeout(10):
                assert [await pipe.read_line() for _ in range(200)] == [b"echo %d" % n for n in range(200)]


async def test_the_real_program_on_a_slow_link(server: Server) -> None:
    async with delay_proxy("127.0.0.1", server.port) as proxy:
        proxy.bytes_s = 8 * 256_000 / 8  # eight times 256 kbit/s: the whole program in a second and not in eight
        pipe = await link.connect(through(server, proxy))
        assert pipe.release == package().release
        await pipe.close()


async def test_silence_is_noticed_and_a_short_one_loses_nothing(
    server: Server, connected: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_hop, "KEEPALIVE_S", 0.5)
    async with delay_proxy("127.0.0.1", server.port) as proxy, connected(through(server, proxy)) as pipe:
        proxy.silence()
        await pipe.write(b"said meanwhile\n")
        reading = asyncio.create_task(pipe.read_line())
        done, _ = await asyncio.wait([reading], timeout=0.7)
        assert not done
        proxy.heal()
        assert await asyncio.wait_for(reading, 10) == b"echo said meanwhile"
        proxy.silence()
        with pytest.raises(LinkLost):
            await asyncio.wait_for(pipe.read_line(), 10)
        async with asyncio.timeout(1.0):
            await pipe.close()
