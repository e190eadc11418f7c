"""What a server, a port or a name can do wrong: each has a sentence of its own."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from console import link, link_hop
from console.link_errors import (
    BrokenOff,
    ChannelRefused,
    ConnectTimeout,
    HostNotFound,
    LinkError,
    NoCommonAlgorithm,
    NotSsh,
    Refused,
    ServerBusy,
)
from console.ship import Package
from console.target import Target, parse_target
from tests.link.conftest import Connect
from tests.support.needs import needs
from tests.support.sshd import Server, sshd

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def something_else(serve: Serve) -> AsyncIterator[Target]:
    """A server that is no SSH server."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        port = server.sockets[0].getsockname()[1]
        yield Target("else", host="127.0.0.1", port=port, user="root", config_file="/dev/null")
    finally:
        server.close()


async def refuse(target: Target, shipped: Package) -> LinkError:
    """The error of a connection that must fail."""
    with pytest.raises(LinkError) as told:
        await link.connect(target, shipped=shipped)
    return told.value


async def test_a_name_without_address(shipped: Package) -> None:
    needs("ssh")
    error = await refuse(replace(parse_target("nobody@no-such-host.invalid"), config_file="/dev/null"), shipped)
    assert isinstance(error, HostNotFound)
    assert "no-such-host.invalid" in str(error)


async def test_a_port_where_nobody_listens(shipped: Package, refusing: int) -> None:
    needs("ssh")
    error = await refuse(Target("x", host="127.0.0.1", port=refusing, config_file="/dev/null"), shipped)
    assert isinstance(error, Refused)
    assert f"127.0.0.1:{refusing}" in str(error)


async def test_a_host_that_never_answers(shipped: Package) -> None:
    needs("ssh")
    # A listener whose queue is full answers no more SYNs.
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        waiting = []
        for _ in range(4):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(address)
            waiting.append(one)
        target = Target(
            "x", host="127.0.0.1", port=address[1], ssh_options=("ConnectTimeout=1",), config_file="/dev/null"
        )
        error = await refuse(target, shipped)
        for one in waiting:
            one.close()
    assert isinstance(error, ConnectTimeout)
    assert "1 s" in str(error)


async def test_a_server_that_says_nothing(shipped: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("ssh")
    monkeypatch.setattr(link_hop, "GREET_LIMIT_S", 0.5)
    ended = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(-1)
        ended.set()

    async with something_else(say_nothing) as target:
        error = await refuse(target, shipped)
        await asyncio.wait_for(ended.wait(), 5)
    assert isinstance(error, NotSsh)
    assert "silent" in str(error)


async def test_a_server_that_hangs_up(shipped: Package) -> None:
    needs("ssh")

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with something_else(hang_up) as target:
        assert isinstance(await refuse(target, shipped), NotSsh)


async def test_a_web_server_on_that_port(shipped: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("ssh")
    monkeypatch.setattr(link_hop, "GREET_LIMIT_S", 1.0)

    async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with something_else(web) as target:
        error = await refuse(target, shipped)
    assert isinstance(error, NotSsh) and "HTTP/1.1 400 Bad Request" in str(error)


@pytest.mark.parametrize(
    ("option", "kind"),
    [
        ("Ciphers=aes256-cbc,aes192-cbc", "cipher"),
        ("KexAlgorithms=diffie-hellman-group1-sha1", "key exchange"),
        ("HostKeyAlgorithms=rsa-sha2-512", "host key"),
    ],
)
async def test_no_algorithm_in_common(option: str, kind: str, server: Server, shipped: Package) -> None:
    # Both ends hang up on the other at once: what is told must not depend on who is first.
    target = replace(server.target(), ssh_options=(option,))
    for error in await asyncio.gather(*(refuse(target, shipped) for _ in range(4))):
        assert isinstance(error, NoCommonAlgorithm)
        assert f"no common {kind}: asked for {option.partition('=')[2]}" in str(error)


@pytest.mark.parametrize("silent", [False, True])
async def test_a_server_that_breaks_off_did_speak_ssh(
    silent: bool, shipped: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("ssh")
    monkeypatch.setattr(link_hop, "GREET_LIMIT_S", 1.0)

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"a word before\r\nSSH-2.0-Elsewhere_1.0\r\n")
        await reader.readline()
        if silent:
            await reader.read(-1)
        writer.close()

    async with something_else(greet) as target:
        error = await refuse(target, shipped)
    assert isinstance(error, BrokenOff) and not error.permanent
    assert "SSH-2.0-Elsewhere_1.0" in str(error) and ("silent for 1 s" in str(error)) == silent


async def test_an_address_that_is_kept_away_is_told_so(shipped: Package) -> None:
    needs("ssh")

    async def turn_away(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"Not allowed at this time\r\n")
        writer.close()

    async with something_else(turn_away) as target:
        error = await refuse(target, shipped)
    assert isinstance(error, ServerBusy) and not error.permanent and "PerSourcePenalties" in str(error)


async def test_one_session_is_enough(folder: Path, connected: Connect) -> None:
    needs("sshd", "ssh")
    with sshd(folder, ["MaxSessions 1"]) as strict:
        async with connected(strict.target()):
            pass


async def test_no_session_at_all_is_told(folder: Path, shipped: Package) -> None:
    needs("sshd", "ssh")
    with sshd(folder, ["MaxSessions 0"]) as stricter:
        error = await refuse(stricter.target(), shipped)
    assert isinstance(error, ChannelRefused)
    assert "MaxSessions" in str(error)


async def test_a_server_too_busy_to_greet(folder: Path, shipped: Package) -> None:
    needs("sshd", "ssh")
    with sshd(folder, ["MaxStartups 1"]) as busy:
        greeted = False
        while not greeted:  # the helper's own look at the port may still count
            reader, writer = await asyncio.open_connection("127.0.0.1", busy.port)
            greeted = (await reader.readline()).startswith(b"SSH-2.0")
        # Greeted, and staying there without signing in.
        error = await refuse(busy.target(), shipped)
        writer.close()
    assert isinstance(error, ServerBusy)
    assert "MaxStartups" in str(error) and not error.permanent


def test_a_name_service_that_hangs_keeps_nobody_from_quitting() -> None:
    code = (
        "import asyncio, socket, threading\n"
        "socket.getaddrinfo = lambda *rest: threading.Event().wait()\n"
        "from console import link, link_hop\nfrom console.link_errors import LinkError\nfrom console.target import Target\n"
        "link_hop.DIAL_LIMIT_S = 0.3\n"
        "try:\n    asyncio.run(link.connect(Target('x', host='slow.example', config_file='/dev/null')))\n"
        "except LinkError as error:\n    print(error.code)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=False)
    assert done.stdout.strip() == "host-not-found", done.stderr
