"""The whole way back: the real agent and the controller, over a network that goes silent and returns."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from console import link_hop
from console.connecting import Connector
from console.controller import Controller
from console.view import LinkState, View
from remote.layout import DECLARED
from remote.options import Options
from tests.support.needs import needs
from tests.support.netns import namespace
from tests.support.sshd import sshd, wait_for_port, wait_until_gone


async def until(controller: Controller, holds: Callable[[View], bool], limit_s: float = 20.0) -> View:
    """Wait for a view of which something holds."""
    seen = asyncio.Event()
    end = controller.subscribe(lambda view: seen.set() if holds(view) else None)
    try:
        async with asyncio.timeout(limit_s):
            while not holds(controller.view):
                seen.clear()
                await seen.wait()
    finally:
        end()
    return controller.view


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Eight datasets with a prompt each."""
    for folder in DECLARED:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "prompts.jsonl").write_text('{"sample_id": "a", "prompt": "hello"}\n')
    return tmp_path


def live(view: View) -> bool:
    """Whether figures are fresh."""
    return view.link.state is LinkState.LIVE and view.snapshot is not None


async def test_silent_network_is_stale_in_time_and_comes_back_by_itself(
    folder: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("sshd", "ssh")
    # The real figures are held by the silent cut in test_networks.
    monkeypatch.setattr(link_hop, "KEEPALIVE_S", 0.5)
    far = folder / "reconnect"
    far.mkdir(mode=0o755, exist_ok=True)
    with namespace() as space, sshd(far, prefix=space.prefix, host=space.address) as server:
        wait_for_port(server.port, space.address)
        controller = Controller("far", Options(root=str(root)), Connector(server.target()))
        await controller.start()
        try:
            before = await until(controller, live)
            assert before.snapshot is not None and len(before.snapshot.datasets) == len(DECLARED)
            agent = before.snapshot.agent.pid
            space.silence()
            stale = await until(controller, lambda view: view.link.state is not LinkState.LIVE, 10.0)
            assert stale.snapshot is not None, "figures stay, marked, and are not blanked"
            await until(controller, lambda view: view.link.state is LinkState.RECONNECTING and view.link.attempt >= 2)
            space.heal()
            again = await until(controller, live, 10.0)
            assert again.snapshot is not None and again.snapshot.agent.pid != agent
        finally:
            async with asyncio.timeout(1.0):
                await controller.close()


async def test_a_killed_agent_and_a_killed_session_are_replaced(folder: Path, root: Path) -> None:
    needs("sshd", "ssh")
    with sshd(folder) as server:
        controller = Controller("near", Options(root=str(root)), Connector(server.target()))
        await controller.start()
        try:
            seen: set[int] = set()
            for _ in range(2):
                view = await until(controller, lambda view: live(view) and _agent(view) not in seen)
                agent = _agent(view)
                seen.add(agent)
                os.kill(agent, signal.SIGKILL)
                await asyncio.to_thread(wait_until_gone, agent)
            agent = _agent(await until(controller, lambda view: live(view) and _agent(view) not in seen))
            for pid in server.sessions():
                os.kill(pid, signal.SIGKILL)
            await asyncio.to_thread(wait_until_gone, agent)
            await until(controller, lambda view: live(view) and _agent(view) not in {*seen, agent})
        finally:
            async with asyncio.timeout(1.0):
                await controller.close()


def _agent(view: View) -> int:
    assert view.snapshot is not None and view.snapshot.agent.pid is not None
    return view.snapshot.agent.pid
