"""`local`: the same pipe without SSH."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from console import link
from console.link_errors import AgentDied
from console.ship import Package
from console.target import parse_target
from tests.link.conftest import Connect
from tests.support.small_agent import small_agent
from tests.support.sshd import wait_until_gone


async def test_local_starts_from_the_stored_zip_with_our_own_python(connected: Connect, tmp_path: Path) -> None:
    fresh = small_agent(tmp_path, note=str(tmp_path))
    for sent in (True, False):
        async with connected(parse_target("local"), shipped=fresh) as pipe:
            assert pipe.sent is sent
            assert pipe.place is not None
            assert Path(pipe.ready["argv"][0]).parent == Path(pipe.place).parent
            assert pipe.place.startswith(str(tmp_path / "cache"))
            pid = pipe.ready["pid"]
            assert os.getsid(pid) != os.getsid(0), "Ctrl-C of the console does not reach it"
        await asyncio.to_thread(wait_until_gone, pid)


async def test_a_local_agent_that_dies_is_told(shipped: Package) -> None:
    pipe = await link.connect(parse_target("local"), shipped=shipped, python=sys.executable)
    os.kill(pipe.ready["pid"], signal.SIGKILL)
    with pytest.raises(AgentDied) as told:
        await pipe.read_line()
    await pipe.close()
    assert "SIGKILL" in str(told.value)
