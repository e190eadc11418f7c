"""Keys, agents, certificates and passphrases; and what is said when none of them opens the door."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from console import link, link_hop
from console.connecting import Connector
from console.link_errors import LoginTimeout, NotLetIn, PassphraseNeeded
from console.ship import Package
from tests.link.conftest import Connect
from tests.support.needs import needs
from tests.support.sshd import Server, keygen, sshd, tool


@contextmanager
def ssh_agent(folder: Path, *keys: Path) -> Iterator[str]:
    """A real agent that holds these keys; yields its socket."""
    needs("ssh-agent", "ssh-add")
    path = str(folder / "agent.sock")
    process = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL)
    try:
        while not os.path.exists(path):
            assert process.poll() is None
        for key in keys:
            subprocess.run(
                ["ssh-add", "-q", str(key)], env={**os.environ, "SSH_AUTH_SOCK": path}, check=True, capture_output=True
            )
        yield path
    finally:
        process.kill()
        process.wait()


@asynccontextmanager
async def late_agent(folder: Path, real: str, touched: asyncio.Event) -> AsyncIterator[str]:
    """An agent whose key waits for a touch: it signs once `touched` is set."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind_reader, behind_writer = await asyncio.open_unix_connection(real)
        try:
            while True:
                size = await reader.readexactly(4)
                body = await reader.readexactly(int.from_bytes(size, "big"))
                if body[0] == 13:  # SSH_AGENTC_SIGN_REQUEST
                    await touched.wait()
                behind_writer.write(size + body)
                size = await behind_reader.readexactly(4)
                writer.write(size + await behind_reader.readexactly(int.from_bytes(size, "big")))
        except (asyncio.IncompleteReadError, OSError):
            writer.close()
        finally:
            behind_writer.close()

    path = str(folder / "late.sock")
    server = await asyncio.start_unix_server(serve, path)
    try:
        yield path
    finally:
        server.close()


async def test_the_refusal_names_every_key_that_was_tried(server: Server, shipped: Package, tmp_path: Path) -> None:
    one, two = keygen(tmp_path / "one"), keygen(tmp_path / "two", "ecdsa")
    held = keygen(tmp_path / "held by the agent")
    with ssh_agent(tmp_path, held) as agent:
        target = replace(server.target(), identities=(str(one), str(two), str(tmp_path / "gone")))
        with pytest.raises(NotLetIn) as told:
            await link.connect(target, shipped=shipped, environment={**os.environ, "SSH_AUTH_SOCK": agent})
    for name in (str(one), str(two), "held by the agent", "gone (cannot be read)"):
        assert name in str(told.value)
    assert told.value.permanent


async def test_no_key_at_all(server: Server, shipped: Package, tmp_path: Path) -> None:
    target = replace(server.target(), identities=(), ssh_options=(f"IdentityFile={tmp_path}/none",))
    with pytest.raises(NotLetIn) as told:
        await link.connect(target, shipped=shipped)
    assert "no key to try" in str(told.value) and "ssh-keygen" in str(told.value)


async def test_an_agent_opens_the_door(server: Server, tmp_path: Path, connected: Connect) -> None:
    with ssh_agent(tmp_path, server.identity) as agent:
        options = (f"IdentityAgent={agent}", f"IdentityFile={tmp_path}/none")
        async with connected(replace(server.target(), identities=(), ssh_options=options)):
            pass


async def test_the_named_key_comes_first_when_the_agent_is_full(
    folder: Path, tmp_path: Path, connected: Connect, shipped: Package
) -> None:
    needs("sshd", "ssh")
    others = [keygen(tmp_path / f"k{n}") for n in range(4)]
    with sshd(folder, ["MaxAuthTries 3"]) as strict, ssh_agent(tmp_path, *others) as agent:
        environment = {**os.environ, "SSH_AUTH_SOCK": agent}
        async with connected(strict.target(), environment=environment):
            pass
        target = replace(strict.target(), identities=(), ssh_options=(f"IdentityFile={strict.identity}",))
        with pytest.raises(NotLetIn) as told:
            await link.connect(target, shipped=shipped, environment=environment)
        assert "too many keys" in str(told.value) and "IdentitiesOnly" in str(told.value)
        options = (*target.ssh_options, "IdentitiesOnly=yes")
        async with connected(replace(target, ssh_options=options), environment=environment):
            pass


async def test_a_public_half_picks_the_agents_key(server: Server, tmp_path: Path, connected: Connect) -> None:
    public = tmp_path / "picked.pub"
    shutil.copy(server.identity.with_suffix(".pub"), public)
    with ssh_agent(tmp_path, keygen(tmp_path / "other"), server.identity) as agent:
        options = (f"IdentityAgent={agent}", "IdentitiesOnly=yes")
        async with connected(replace(server.target(), identities=(str(public),), ssh_options=options)):
            pass


async def test_a_dead_agent_harms_nobody(server: Server, tmp_path: Path, connected: Connect) -> None:
    stale = tmp_path / "stale.sock"
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(stale))
    async with connected(server.target(), environment={**os.environ, "SSH_AUTH_SOCK": str(stale)}):
        pass


async def test_a_key_that_waits_for_a_touch_is_waited_for_and_said(
    server: Server, tmp_path: Path, connected: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_hop, "TOUCH_HINT_S", 0.1)
    touched = asyncio.Event()
    stages: list[str] = []

    def heard(stage: str) -> None:
        stages.append(stage)
        if "touch" in stage:
            touched.set()

    with ssh_agent(tmp_path, server.identity) as real:
        async with late_agent(tmp_path, real, touched) as late:
            options = (f"IdentityAgent={late}", f"IdentityFile={tmp_path}/none")
            async with connected(replace(server.target(), identities=(), ssh_options=options), on_stage=heard):
                pass
    assert any("touch" in stage for stage in stages)


async def test_a_key_that_is_never_touched_has_a_deadline(
    server: Server, tmp_path: Path, shipped: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_hop, "LOGIN_LIMIT_S", 0.5)
    with ssh_agent(tmp_path, server.identity) as real:
        async with late_agent(tmp_path, real, asyncio.Event()) as late:
            options = (f"IdentityAgent={late}", f"IdentityFile={tmp_path}/none")
            with pytest.raises(LoginTimeout) as told:
                await link.connect(replace(server.target(), identities=(), ssh_options=options), shipped=shipped)
    assert "touch" in str(told.value) and not told.value.permanent


async def test_a_passphrase_is_asked_for_and_may_be_wrong_first(
    folder: Path, tmp_path: Path, connected: Connect, shipped: Package
) -> None:
    needs("sshd", "ssh")
    locked = keygen(folder / "locked", passphrase="open sesame")
    answers = ["wrong", "open sesame"]
    asked: list[tuple[str, str]] = []

    async def ask(kind: str, what: str) -> str | None:
        asked.append((kind, what))
        return answers.pop(0)

    async def decline(kind: str, what: str) -> str | None:
        return None

    with sshd(folder, identity=locked) as strict:
        async with connected(strict.target(), ask=ask):
            pass
        assert asked == [("passphrase", str(locked))] * 2
        for nobody in (None, decline):
            with pytest.raises(PassphraseNeeded) as told:
                await link.connect(strict.target(), shipped=shipped, ask=nobody)
            assert str(locked) in str(told.value) and "ssh-add" in str(told.value)


async def test_a_passphrase_that_worked_is_not_asked_for_again(folder: Path, tmp_path: Path) -> None:
    needs("sshd", "ssh")
    locked = keygen(folder / "locked-once", passphrase="open sesame")
    answers = ["wrong", "open sesame"]
    asked: list[str] = []

    async def ask(kind: str, what: str) -> str | None:
        asked.append(what)
        return answers.pop(0)

    with sshd(folder, identity=locked) as strict:
        connector = Connector(strict.target(), ask=ask)
        for _ in range(3):
            pipe = await connector()
            await pipe.close()
        assert asked == [str(locked)] * 2
        # The key got another passphrase meanwhile: the remembered one is tried, and then a person is asked.
        tool("ssh-keygen", "-q", "-p", "-a", "1", "-P", "open sesame", "-N", "another one", "-f", str(locked))
        answers.append("another one")
        pipe = await connector()
        await pipe.close()
        assert asked == [str(locked)] * 3


async def test_a_user_certificate_opens_the_door(folder: Path, tmp_path: Path, connected: Connect) -> None:
    needs("sshd", "ssh")
    authority, key = keygen(tmp_path / "authority"), keygen(tmp_path / "mine")
    trusted = folder / "trusted-authority.pub"
    shutil.copy(authority.with_suffix(".pub"), trusted)
    with sshd(folder, [f"TrustedUserCAKeys {trusted}"]) as certified:
        tool("ssh-keygen", "-q", "-s", str(authority), "-I", "me", "-n", certified.user, f"{key}.pub")
        async with connected(replace(certified.target(), identities=(str(key),))):
            pass
        elsewhere = tmp_path / "certificate.pub"
        shutil.move(f"{key}-cert.pub", elsewhere)
        options = (f"CertificateFile={elsewhere}", f"CertificateFile={tmp_path}/gone")
        async with connected(replace(certified.target(), identities=(str(key),), ssh_options=options)):
            pass


async def test_a_server_that_takes_neither_keys_nor_passwords_says_so_with_its_banner(
    folder: Path, shipped: Package
) -> None:
    needs("sshd", "ssh")
    banner = folder / "banner"
    banner.write_text("Authorised staff only.\n\x1b[2Jcall 555\n")
    lines = ["PubkeyAuthentication no", "HostbasedAuthentication yes", f"Banner {banner}"]
    with sshd(folder, lines) as strict, pytest.raises(NotLetIn) as told:
        await link.connect(strict.target(), shipped=shipped)
    assert "no way to sign in by key or password" in str(told.value)
    assert told.value.details[0] == "Authorised staff only." and all(line.isprintable() for line in told.value.details)
