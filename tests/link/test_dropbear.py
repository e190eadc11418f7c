"""The same link to a dropbear server."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from console import link
from console.link_errors import HostKeyUnknown, LinkError
from console.ship import Package
from tests.link.conftest import Connect
from tests.support.dropbear import dropbear
from tests.support.needs import needs, needs_root
from tests.support.sshd import throwaway_user


async def test_dropbear_carries_the_agent(folder: Path, connected: Connect, shipped: Package) -> None:
    needs("dropbear", "ssh")
    needs_root("useradd")
    with throwaway_user("/bin/sh") as user, dropbear(folder, user) as server:
        with pytest.raises(HostKeyUnknown):
            await link.connect(server.unknown(), shipped=shipped)
        for sent in (True, False):
            async with connected(server.target()) as pipe:
                assert pipe.sent is sent
                await pipe.write(b"flood 3000\n")
                for _ in range(3000):
                    assert await pipe.read_line() == b"x" * 999


async def test_a_killed_dropbear_session_is_a_lost_link(folder: Path, connected: Connect) -> None:
    needs("dropbear", "ssh")
    needs_root("useradd")
    with throwaway_user("/bin/sh") as user, dropbear(folder, user) as server:
        async with connected(server.target()) as pipe:
            for pid in server.sessions():
                os.kill(pid, signal.SIGKILL)
            with pytest.raises(LinkError) as told:
                await pipe.read_line()
    assert not told.value.permanent
