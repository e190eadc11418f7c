"""What the console learns, and when, of a link, a session or an agent that is no more."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from console import link_hop
from console.link_errors import AgentDied, LinkError, LinkLost
from console.pipe import AgentPipe
from tests.link.conftest import Connect
from tests.support.sshd import Server, sshd, wait_until_gone

QUIT_LIMIT_S = 1.0
DEAD_LIMIT_S = 10.0


async def ending_of(pipe: AgentPipe, limit_s: float = 5.0) -> LinkError:
    """What a reader is told."""
    with pytest.raises(LinkError) as told:
        async with asyncio.timeout(limit_s):
            await pipe.read_line()
    return told.value


async def test_an_agent_that_is_killed(server: Server, connected: Connect) -> None:
    async with connected(server.target()) as pipe:
        os.kill(pipe.ready["pid"], signal.SIGKILL)
        error = await ending_of(pipe)
    assert isinstance(error, AgentDied)
    assert "KILL" in str(error) and not error.permanent


async def test_an_agent_that_ends_with_a_word(server: Server, connected: Connect) -> None:
    async with connected(server.target()) as pipe:
        await pipe.write(b"exit 7\n")
        error = await ending_of(pipe)
    assert isinstance(error, AgentDied)
    assert "exit status 7" in str(error) and "going down" in str(error)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_session_that_is_ended_over_there(number: signal.Signals, folder: Path, connected: Connect) -> None:
    with sshd(folder) as server:
        async with connected(server.target()) as pipe:
            for pid in server.sessions():
                os.kill(pid, number)
            assert isinstance(await ending_of(pipe), LinkLost)
            await asyncio.to_thread(wait_until_gone, pipe.ready["pid"])


async def test_a_frozen_server_is_noticed_and_never_waited_for(
    folder: Path, connected: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_hop, "KEEPALIVE_S", 0.5)
    with sshd(folder) as server:
        async with connected(server.target()) as other, connected(server.target()) as pipe:
            for pid in server.sessions():
                os.kill(pid, signal.SIGSTOP)
            async with asyncio.timeout(QUIT_LIMIT_S):
                await other.close()
            error = await ending_of(pipe, DEAD_LIMIT_S)
            assert isinstance(error, LinkLost)
            async with asyncio.timeout(QUIT_LIMIT_S):
                await pipe.close()
        for pid in server.sessions():
            os.kill(pid, signal.SIGCONT)


async def test_closing_leaves_no_agent_behind(server: Server, connected: Connect) -> None:
    async with connected(server.target()) as pipe:
        pid = pipe.ready["pid"]
    await asyncio.to_thread(wait_until_gone, pid)


async def test_closing_twice_and_reading_afterwards_do_no_harm(server: Server, connected: Connect) -> None:
    async with connected(server.target()) as pipe:
        await pipe.close()
        await pipe.close()
        assert isinstance(await ending_of(pipe), LinkError)
        await pipe.write(b"into the void\n")


async def test_a_reader_that_was_cancelled_loses_nothing(server: Server, connected: Connect) -> None:
    async with connected(server.target()) as pipe:
        for _ in range(20):
            reading = asyncio.create_task(pipe.read_line())
            await asyncio.sleep(0)
            reading.cancel()
            await asyncio.wait([reading])
        await pipe.write(b"one\n")
        assert await pipe.read_line() == b"echo one"


async def test_lines_larger_than_a_window_arrive_whole(server: Server, connected: Connect) -> None:
    async with connected(server.target()) as pipe:
        big = b"y" * (3 << 20)
        await pipe.write(big + b"\n")
        assert await pipe.read_line() == b"echo " + big
