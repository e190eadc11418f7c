"""Whatever ends a connection, and whenever: no process, socket or file stays behind."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from console import link
from console.link_errors import LinkError
from console.ship import Package
from console.target import Target
from tests.link.conftest import Connect
from tests.support.sshd import Server, children, keygen


def open_files() -> int:
    """How many descriptors this process has open."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def settled(server: Server, kept: set[int], limit_s: float = 20.0) -> None:
    """Return once the server serves nobody and we have no child but those kept; raises TimeoutError."""
    until = time.monotonic() + limit_s
    while (sessions := server.sessions()) or set(children(os.getpid())) - kept:
        if time.monotonic() > until:
            raise TimeoutError(f"left: sessions {sessions}, children {set(children(os.getpid())) - kept}")
        time.sleep(0.02)


async def test_cancelling_at_any_stage_leaves_nothing(server: Server, shipped: Package, connected: Connect) -> None:
    for _ in range(2):  # the second time it is stored there already, as it will be below
        stages: list[str] = []
        async with connected(server.target(), on_stage=stages.append):
            pass
    kept = set(children(os.getpid()))
    await asyncio.to_thread(settled, server, kept)
    before = open_files()
    for last in range(1, len(stages) + 1):
        heard: list[str] = []
        reached = asyncio.Event()

        def hear(stage: str, heard: list[str] = heard, reached: asyncio.Event = reached, last: int = last) -> None:
            heard.append(stage)
            if len(heard) == last:
                reached.set()

        attempt = asyncio.create_task(link.connect(server.target(), shipped=shipped, on_stage=hear))
        await reached.wait()
        attempt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempt
        await asyncio.to_thread(settled, server, kept)
    assert open_files() <= before


async def test_failing_again_and_again_leaves_nothing(server: Server, shipped: Package, tmp_path: Path) -> None:
    wrong = keygen(tmp_path / "wrong")
    targets: list[Target] = [
        server.unknown(),
        replace(server.target(), identities=(str(wrong),)),
        replace(server.target(), port=1),
        replace(server.target(), ssh_options=("ProxyCommand=sh -c 'exit 3'",)),
        replace(server.target(), ssh_options=("Nonsense=1",)),
        replace(server.target(), jump=f"127.0.0.1:{server.port}"),
    ]
    kept = set(children(os.getpid()))
    counts = []
    for _ in range(3):
        for target in targets:
            with pytest.raises(LinkError):
                await link.connect(target, shipped=shipped)
        await asyncio.to_thread(settled, server, kept)
        counts.append(open_files())
    assert counts[1] == counts[2]
