"""Real networks that go silent, are cut, lose packets or are slow: namespaces on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from console import link, link_hop
from console.link_errors import ConnectTimeout, LinkLost
from console.ship import Package
from tests.link.conftest import Connect
from tests.support.needs import needs
from tests.support.netns import Namespace, namespace
from tests.support.new_release import new_release
from tests.support.sshd import Server, sshd, wait_for_port


@pytest.fixture(scope="module")
def far_folder(folder: Path) -> Path:
    """The far server's own files."""
    path = folder / "far"
    path.mkdir(mode=0o755, exist_ok=True)
    return path


@pytest.fixture
def far(far_folder: Path) -> Iterator[tuple[Namespace, Server]]:
    """A server on another network."""
    needs("sshd", "ssh")
    with namespace() as space, sshd(far_folder, prefix=space.prefix, host=space.address) as server:
        wait_for_port(server.port, space.address)
        yield space, server


async def lost_within(pipe_reading: asyncio.Task[bytes], limit_s: float) -> None:
    """The reader is told that the link is lost."""
    with pytest.raises(LinkLost):
        async with asyncio.timeout(limit_s):
            await pipe_reading


async def test_a_silent_cut_is_noticed_and_a_heal_lets_us_in_again(
    far: tuple[Namespace, Server], connected: Connect, shipped: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    space, server = far
    async with connected(server.target()) as pipe:
        reading = asyncio.create_task(pipe.read_line())
        space.silence()
        await lost_within(reading, 10.0)
        async with asyncio.timeout(1.0):
            await pipe.close()
    monkeypatch.setattr(link_hop, "DIAL_LIMIT_S", 1.0)
    with pytest.raises(ConnectTimeout):
        await link.connect(server.target(), shipped=shipped)
    space.heal()
    async with asyncio.timeout(3.0), connected(server.target()):
        pass


async def test_a_pulled_cable_is_noticed(
    far: tuple[Namespace, Server], connected: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    space, server = far
    # The figures that count are those of the silent cut; here only what is said.
    monkeypatch.setattr(link_hop, "KEEPALIVE_S", 0.5)
    async with connected(server.target()) as pipe:
        reading = asyncio.create_task(pipe.read_line())
        space.cut()
        await lost_within(reading, 10.0)


async def test_lost_packets_lose_no_line(far: tuple[Namespace, Server], connected: Connect) -> None:
    space, server = far
    async with connected(server.target()) as pipe:
        space.lose(5)
        await pipe.write(b"flood 300\n")
        for _ in range(300):
            assert await pipe.read_line() == b"x" * 999


@pytest.mark.parametrize("rate", ["1mbit", pytest.param("256kbit", marks=pytest.mark.soak)])
async def test_a_slow_link_carries_the_real_program(rate: str, far: tuple[Namespace, Server]) -> None:
    space, server = far
    shipped = new_release()
    space.slow(rate)
    stages: list[str] = []
    pipe = await link.connect(server.target(), shipped=shipped, on_stage=stages.append)
    assert pipe.sent and pipe.release == shipped.release
    assert any("kB" in stage for stage in stages), "what takes so long is said"
    await pipe.close()
