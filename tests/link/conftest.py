"""One real sshd for all link tests that need no special one, and the small program that is shipped through it."""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from console import link
from console.pipe import AgentPipe
from console.ship import Package
from console.target import Target
from tests.support.needs import needs
from tests.support.small_agent import small_agent
from tests.support.sshd import Server, sshd

Connect = Callable[..., AbstractAsyncContextManager[AgentPipe]]


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """A folder that every user of the machine may enter."""
    path = Path(tempfile.mkdtemp(prefix="e3-link-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def server(folder: Path) -> Iterator[Server]:
    """A plain sshd."""
    needs("sshd", "ssh")
    with sshd(folder, ["MaxStartups 100"]) as running:
        yield running


@pytest.fixture(scope="session")
def shipped(folder: Path) -> Package:
    """The small program."""
    return small_agent(folder)


@pytest.fixture
def refusing() -> Iterator[int]:
    """A port where nobody listens, and nobody else can begin to."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the real user's settings, pinned keys, cache or agent."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


@pytest.fixture
def connected(shipped: Package) -> Connect:
    """Connect, prove that bytes pass both ways, and close at the end."""

    @asynccontextmanager
    async def open_pipe(target: Target, **more: Any) -> AsyncIterator[AgentPipe]:
        pipe = await link.connect(target, shipped=more.pop("shipped", shipped), **more)
        try:
            await pipe.write(b"hello\n")
            assert await pipe.read_line() == b"echo hello"
            yield pipe
        finally:
            await pipe.close()

    return open_pipe
