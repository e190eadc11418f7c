"""The user's SSH configuration counts as it does for ssh: aliases, Include, Match, jump hosts, proxies."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from console import link
from console.link_errors import HostKeyUnknown, ProxyFailed, SshConfigFault
from console.ship import Package
from console.target import Target, parse_target
from tests.link.conftest import Connect
from tests.support.needs import needs
from tests.support.sshd import Server, sshd

RELAY = """
import os, select, socket, sys
sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))
ends = {0: sock.fileno(), sock.fileno(): 1}
while True:
    for fd in select.select(list(ends), [], [])[0]:
        data = os.read(fd, 65536)
        if not data:
            sys.exit(0)
        os.write(ends[fd], data)
"""


def write_config(tmp_path: Path, lines: Sequence[str]) -> Path:
    """A configuration file of these lines."""
    path = tmp_path / "ssh_config"
    path.write_text("\n".join(lines) + "\n")
    return path


def server_lines(server: Server, alias: str) -> list[str]:
    """A Host block for a server."""
    return [
        f"Host {alias}",
        f"  HostName {server.host}",
        f"  Port {server.port}",
        f"  User {server.user}",
        f"  IdentityFile {server.identity}",
        f"  UserKnownHostsFile {server.known_hosts}",
    ]


def alias(name: str, config: Path) -> Target:
    """A target by its alias in a configuration file."""
    return replace(parse_target(name), config_file=str(config))


async def test_alias_include_match_and_lines_that_libraries_choke_on(
    server: Server, tmp_path: Path, connected: Connect
) -> None:
    included = tmp_path / "more"
    included.write_text("\n".join(server_lines(server, "gpu other")))
    config = write_config(
        tmp_path,
        [
            f"Include {tmp_path}/mo*",
            "ServerAliveInterval 10s # a trailing comment",
            "ConnectTimeout 1m",
            'Match exec "test 1 = 1"',
            "  RequestTTY force",
            "  RemoteCommand echo this is not ours",
            "  LocalForward 1 127.0.0.1:2",
            "Host *",
            f"  IdentityFile {tmp_path}/not-there",
            f"  CertificateFile {tmp_path}/not-there-cert.pub",
        ],
    )
    async with connected(alias("gpu", config)) as pipe:
        assert pipe.peer == f"gpu (127.0.0.1:{server.port})"


async def test_a_line_that_ssh_refuses_is_named_with_its_place(tmp_path: Path, shipped: Package) -> None:
    needs("ssh")
    config = write_config(tmp_path, ["Host gpu", "  Prot 22"])
    with pytest.raises(SshConfigFault) as told:
        await link.connect(alias("gpu", config), shipped=shipped)
    assert "line 2" in str(told.value) and str(config) in str(told.value) and "Prot" in str(told.value).title()


@pytest.fixture
def no_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without OpenSSH's client."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))


async def test_without_ssh_the_library_reads_the_configuration(
    server: Server, tmp_path: Path, connected: Connect, shipped: Package, no_ssh: None
) -> None:
    config = write_config(tmp_path, [*server_lines(server, "gpu"), "  RequestTTY force", "  RemoteCommand false"])
    async with connected(alias("gpu", config)):
        pass
    bad = write_config(tmp_path, [*server_lines(server, "gpu"), "  ConnectTimeout 1x"])
    with pytest.raises(SshConfigFault) as told:
        await link.connect(alias("gpu", bad), shipped=shipped)
    assert "line 7" in str(told.value)


async def test_without_ssh_jump_hosts_are_opened_too(
    server: Server, folder: Path, tmp_path: Path, connected: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sshd(folder) as gate:
        monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
        config = write_config(tmp_path, [*server_lines(server, "gpu"), "  ProxyJump gate", *server_lines(gate, "gate")])
        async with connected(alias("gpu", config)):
            assert gate.sessions()


async def test_two_jump_hosts_each_with_its_own_key_and_user(
    server: Server, folder: Path, tmp_path: Path, connected: Connect, shipped: Package
) -> None:
    with sshd(folder) as outer, sshd(folder) as inner:
        lines = [*server_lines(server, "gpu"), "  ProxyJump outer,inner"]
        lines += server_lines(outer, "outer") + server_lines(inner, "inner")
        config = write_config(tmp_path, lines)
        async with connected(alias("gpu", config)):
            assert outer.sessions() and inner.sessions()
        # Of a chain of its own, the first hop's counts: gpu by inner, inner by outer.
        lines = [*server_lines(server, "gpu"), "  ProxyJump inner"]
        lines += [*server_lines(inner, "inner"), "  ProxyJump outer", *server_lines(outer, "outer")]
        async with connected(alias("gpu", write_config(tmp_path, lines))):
            assert outer.sessions() and inner.sessions()


async def test_the_key_of_a_jump_host_is_checked_too(
    server: Server, folder: Path, tmp_path: Path, shipped: Package, connected: Connect
) -> None:
    with sshd(folder) as gate:
        lines = [*server_lines(server, "gpu"), "  ProxyJump gate", *server_lines(gate, "gate")]
        config = write_config(tmp_path, [line for line in lines if str(gate.known_hosts) not in line])
        with pytest.raises(HostKeyUnknown) as told:
            await link.connect(alias("gpu", config), shipped=shipped)
        assert told.value.host == f"gate (127.0.0.1:{gate.port})"
        link.accept_key(told.value)
        async with connected(alias("gpu", config)):
            pass


async def test_a_jump_host_that_cannot_reach_the_target(
    server: Server, folder: Path, tmp_path: Path, shipped: Package
) -> None:
    with sshd(folder, ["AllowTcpForwarding no"]) as gate:
        config = write_config(tmp_path, [*server_lines(server, "gpu"), "  ProxyJump gate", *server_lines(gate, "gate")])
        with pytest.raises(ProxyFailed) as told:
            await link.connect(alias("gpu", config), shipped=shipped)
    assert "gate" in str(told.value) and "gpu" in str(told.value)


async def test_a_circle_of_jump_hosts_is_told(tmp_path: Path, shipped: Package) -> None:
    needs("ssh")
    config = write_config(tmp_path, ["Host a", "  ProxyJump b", "Host b", "  ProxyJump a"])
    with pytest.raises(SshConfigFault) as told:
        await link.connect(alias("a", config), shipped=shipped)
    assert "circle" in str(told.value)


async def test_a_proxy_command_with_its_tokens(server: Server, tmp_path: Path, connected: Connect) -> None:
    relay = tmp_path / "relay.py"
    relay.write_text(RELAY)
    lines = [*server_lines(server, "gpu"), f"  ProxyCommand {sys.executable} {relay} %h %p"]
    async with connected(alias("gpu", write_config(tmp_path, lines))):
        pass


async def test_a_proxy_command_that_fails_says_what_it_said(server: Server, tmp_path: Path, shipped: Package) -> None:
    lines = [*server_lines(server, "gpu"), "  ProxyCommand sh -c 'echo no such tunnel >&2; exit 3'"]
    with pytest.raises(ProxyFailed) as told:
        await link.connect(alias("gpu", write_config(tmp_path, lines)), shipped=shipped)
    assert "no such tunnel" in str(told.value)


async def test_a_pasted_command_connects(server: Server, connected: Connect) -> None:
    needs("ssh")
    text = (
        f"ssh {server.user}@127.0.0.1 -p {server.port} -i {server.identity} -F /dev/null "
        f"-o UserKnownHostsFile={server.known_hosts} -L 8080:localhost:8080 -tt"
    )
    async with connected(parse_target(text)):
        pass


async def test_expanded_paths_follow_the_home_folder(server: Server, tmp_path: Path, connected: Connect) -> None:
    needs("ssh")
    name = os.path.relpath(server.identity, Path.home())
    target = replace(server.target(), identities=(), ssh_options=(f"IdentityFile=%d/{name}",))
    async with connected(target):
        pass
