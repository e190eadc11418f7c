"""The demo's SSH server: loopback only, one key, no password; what it runs, it runs by a real `/bin/sh`.

Whoever holds the generated key has a shell of this user. That is why it listens on loopback, why
the key lies in a private folder, and why there is no forwarding, no terminal and no SFTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

import asyncssh

MAX_SESSIONS = 10


class DemoServer:
    """A listening server; `port` once started, `idle_s()` for who decides when nobody needs it any more."""

    def __init__(self, host_key: Path, client_key: Path, environment: Mapping[str, str], home: Path) -> None:
        self.port = 0
        self._host_key = host_key
        self._authorized = asyncssh.read_public_key(f"{client_key}.pub")
        self._environment = dict(environment)
        self._home = home
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self._used_at = time.monotonic()
        self._acceptor: asyncssh.SSHAcceptor | None = None

    async def start(self, port: int = 0) -> None:
        """Listen on a port of loopback, a free one when 0. Raises OSError."""
        self._acceptor = await asyncssh.listen(
            "127.0.0.1",
            port,
            server_factory=lambda: _Login(self._authorized, self._connections),
            server_host_keys=[str(self._host_key)],
            process_factory=self._serve,
            encoding=None,
            allow_pty=False,
            agent_forwarding=False,
            x11_forwarding=False,
            keepalive_interval=15,
            compression_algs=["zlib@openssh.com", "none"],
            config=None,
        )
        self.port = self._acceptor.get_port()

    def idle_s(self) -> float:
        """Seconds since the last connection ended; 0 while there is one."""
        if self._connections:
            self._used_at = time.monotonic()
        return time.monotonic() - self._used_at

    async def stop(self) -> None:
        """Listen no more and end the connections."""
        if self._acceptor is not None:
            self._acceptor.close()
        for connection in list(self._connections):
            connection.abort()

    async def _serve(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        """Run one command. An exception here would end the whole connection, so what fails is told on stderr."""
        if process.command is None:
            process.stderr.write(b"This is the demo's container: it runs commands only.\n")
            process.exit(1)
            return
        try:
            child = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                process.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=self._home,
                env=self._environment,
                start_new_session=True,
            )
        except OSError as error:
            process.stderr.write(f"{error}\n".encode())
            process.exit(126)
            return
        await _carry(process, child)


class _Login(asyncssh.SSHServer):
    """Lets the one key in, under any user's name, and offers nothing but commands."""

    def __init__(self, authorized: asyncssh.SSHKey, connections: set[asyncssh.SSHServerConnection]) -> None:
        self._authorized = authorized
        self._connections = connections
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self._connections.add(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection is not None:
            self._connections.discard(self._connection)

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return key == self._authorized

    def password_auth_supported(self) -> bool:
        return False


async def _carry(process: asyncssh.SSHServerProcess[bytes], child: asyncio.subprocess.Process) -> None:
    """Carry bytes both ways until the command has ended and said everything, or the client is gone."""
    assert child.stdin is not None and child.stdout is not None and child.stderr is not None
    feed = asyncio.create_task(_feed(process.stdin, child.stdin), name="demo stdin")
    pumps = [
        asyncio.create_task(_pump(child.stdout, process.stdout), name="demo stdout"),
        asyncio.create_task(_pump(child.stderr, process.stderr), name="demo stderr"),
    ]
    gone = asyncio.create_task(process.wait_closed(), name="demo client gone")
    done = asyncio.create_task(_ended(child, pumps), name="demo command")
    try:
        await asyncio.wait([done, gone], return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            # As sshd does: input and output end, and a command that takes no notice is told by SIGHUP.
            child.stdin.close()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGHUP)
            return
        status = child.returncode or 0
        if status < 0:
            process.exit_with_signal(signal.Signals(-status).name.removeprefix("SIG"))
        else:
            process.exit(status)
    finally:
        for task in (feed, gone, *pumps):
            task.cancel()
        done.cancel()
        await asyncio.gather(feed, gone, done, *pumps, return_exceptions=True)


async def _ended(child: asyncio.subprocess.Process, pumps: list[asyncio.Task[None]]) -> None:
    await asyncio.wait(pumps)
    await child.wait()


async def _feed(source: asyncssh.SSHReader[bytes], sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, asyncssh.Error):
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
        sink.close()


async def _pump(source: asyncio.StreamReader, sink: asyncssh.SSHWriter[bytes]) -> None:
    while data := await source.read(1 << 16):
        try:
            sink.write(data)
            await sink.drain()
        except (OSError, asyncssh.Error):
            # The client is gone: the command's output has nowhere to go, but it must not block.
            continue


def make_key(path: Path) -> None:
    """Write a new Ed25519 key pair, the private half readable by its owner alone. Raises OSError."""
    key = asyncssh.generate_private_key("ssh-ed25519", comment=f"eagle3-demo-{path.name}")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(fd, "wb") as file:
        file.write(key.export_private_key())
    path.with_suffix(".pub").write_bytes(key.export_public_key())
