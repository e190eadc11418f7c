"""Containers that take a password: asked of a person, after the host's key is checked, and written nowhere."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from console import link, transcript
from console.connecting import Connector, Remembered
from console.link_errors import HostKeyChanged, HostKeyUnknown, LinkError, NotLetIn
from console.login_keys import Ask
from console.passwords import Passwords
from console.ship import Package
from console.sshconfig import Hop
from console.target import Target
from tests.link.conftest import Connect
from tests.support.cli import console, environment
from tests.support.needs import needs, needs_root
from tests.support.sshd import Server, keygen, sshd, throwaway_user
from tests.support.terminal import Terminal

PASSWORD = "corr3ct horse"


@dataclass
class Person:
    """Answers with what is left in `answers`; None when that is nothing."""

    answers: list[str]
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def ask(self, kind: str, what: str) -> str | None:
        self.asked.append((kind, what))
        return self.answers.pop(0) if self.answers else None


@pytest.fixture(scope="module")
def rented(folder: Path) -> Iterator[Server]:
    """A server with a user who has a password; keys are taken too, but ours is not known there."""
    needs("sshd", "ssh", "chpasswd")
    needs_root("users with passwords")
    place = folder / "passwords"
    place.mkdir(mode=0o755)
    with (
        throwaway_user("/bin/sh", {}, password=PASSWORD) as user,
        sshd(place, ["PasswordAuthentication yes"]) as running,
    ):
        yield replace(running, user=user.name, identity=keygen(place / "unknown there"))


def words_for(server: Server) -> list[str]:
    """The command line's words for the rented container."""
    target = server.target()
    command = f"ssh -F /dev/null {server.user}@127.0.0.1 -p {server.port}"
    return [command, "--identity", target.identities[0], "--known-hosts", str(target.known_hosts)]


async def refusal(target: Target, shipped: Package, ask: Ask | None = None) -> LinkError:
    """The error of a connection that must fail."""
    with pytest.raises(LinkError) as told:
        await link.connect(target, shipped=shipped, ask=ask)
    return told.value


async def test_a_password_is_asked_for_after_the_keys_and_may_be_wrong_first(
    rented: Server, connected: Connect, shipped: Package
) -> None:
    person = Person(["wrong", PASSWORD])
    async with connected(rented.target(), ask=person.ask):
        pass
    assert person.asked == [("password", f"{rented.user}@127.0.0.1:{rented.port}")] * 2
    for answers, words in (
        (["not this", "nor this", "nor that", "one more"], "did not take the password"),
        ([], "no password was given"),
    ):
        person = Person(list(answers))
        error = await refusal(rented.target(), shipped, person.ask)
        assert isinstance(error, NotLetIn) and words in str(error) and "unknown there" in str(error)
        assert len(person.asked) == min(3, len(answers) + 1)
        assert not any(answer in str(error) for answer in answers)


async def test_where_nobody_can_be_asked_it_is_said_and_how_to(
    rented: Server, shipped: Package, tmp_path: Path
) -> None:
    error = await refusal(rented.target(), shipped)
    assert isinstance(error, NotLetIn) and error.permanent
    assert "by password, and nobody is here to be asked" in str(error) and "terminal" in error.remedy
    told = await asyncio.to_thread(console, "status", *words_for(rented), home=tmp_path)
    assert told.code == 1 and "nobody is here to be asked" in told.err and len(told.err.splitlines()) == 1


async def test_no_password_is_asked_for_before_the_hosts_key_is_known(rented: Server, shipped: Package) -> None:
    person = Person([PASSWORD])
    assert isinstance(await refusal(rented.unknown(), shipped, person.ask), HostKeyUnknown)
    kind, blob = keygen(rented.folder / "other host").with_suffix(".pub").read_text().split()[:2]
    changed = rented.folder / "changed"
    changed.write_text(f"[127.0.0.1]:{rented.port} {kind} {blob}\n")
    error = await refusal(replace(rented.target(), known_hosts=str(changed)), shipped, person.ask)
    assert isinstance(error, HostKeyChanged) and person.asked == []


@pytest.mark.parametrize("option", ["BatchMode=yes", "PasswordAuthentication=no"])
async def test_the_users_configuration_rules_passwords_out(option: str, rented: Server, shipped: Package) -> None:
    person = Person([PASSWORD])
    error = await refusal(replace(rented.target(), ssh_options=(option,)), shipped, person.ask)
    assert person.asked == [] and "password" not in error.message.replace("/passwords/", "")


async def test_it_comes_back_with_the_password_in_memory_and_offers_a_wrong_one_once(rented: Server) -> None:
    person = Person([PASSWORD])
    connector = Connector(rented.target(), ask=person.ask)
    for _ in range(2):
        await (await connector()).close()
    assert len(person.asked) == 1
    person = Person(["old"])
    connector = Connector(replace(rented.target(), user="nobody-of-that-name"), ask=person.ask)
    for asked in (2, 3):  # the wrong one and then none; a person again, and not what was wrong before
        with pytest.raises(NotLetIn):
            await connector()
        assert len(person.asked) == asked


async def test_the_transcript_and_the_process_list_hold_no_password(
    rented: Server, connected: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    loggers = [logging.getLogger(name) for name in transcript.LOGGERS]
    before = [(list(one.handlers), one.level, one.propagate) for one in loggers]
    try:
        transcript.start_transcript()
        async with connected(rented.target(), ask=Person([PASSWORD]).ask):
            lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    finally:
        for one, (handlers, level, propagate) in zip(loggers, before, strict=True):
            one.handlers, one.propagate = handlers, propagate
            one.setLevel(level)
    assert "signing in" in written.getvalue() and PASSWORD not in written.getvalue()
    assert lines and not any(PASSWORD.encode() in line for line in lines)


@pytest.mark.parametrize(("leaving", "code"), [(None, 1), (signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_a_command_in_a_terminal_asks_without_echo_and_can_be_left(
    leaving: signal.Signals | None, code: int, rented: Server, tmp_path: Path
) -> None:
    words = [sys.executable, "-m", "console.cli", "status", *words_for(rented), "--root", "/no/such/root"]
    terminal = Terminal(words, environment=environment(tmp_path / "home"))
    try:
        terminal.until(lambda: "password for" in terminal.text)
        if leaving is not None:
            os.kill(terminal.process.pid, leaving)
            assert terminal.wait() == code, terminal.text
        else:
            terminal.type(PASSWORD + "\r")
            assert terminal.wait() == code
            assert "there is no folder" in terminal.text, terminal.text.split()
        assert PASSWORD.encode() not in terminal.raw
        assert terminal.settings()[3] == terminal.before[3], "the echo is back"
    finally:
        terminal.close()


class Asking(asyncssh.SSHServer):
    """Asks questions of its own, one round after the other, and lets nobody in."""

    rounds: list[list[tuple[str, bool]]]
    heard: list[list[str]]

    def begin_auth(self, username: str) -> bool:
        return True

    def kbdint_auth_supported(self) -> bool:
        return True

    def get_kbdint_challenge(self, username: str, lang: str, submethods: str) -> Any:
        return "", "", "", self.rounds[0]

    def validate_kbdint_response(self, username: str, responses: Any) -> Any:
        self.heard.append(list(responses))
        more = self.rounds[len(self.heard) : len(self.heard) + 1]
        return ("", "", "", more[0]) if more else False


@asynccontextmanager
async def asking(folder: Path, *rounds: list[tuple[str, bool]]) -> AsyncIterator[tuple[Target, type[Asking]]]:
    """A server with these questions."""
    needs("ssh", "ssh-keygen")
    key = keygen(folder / "host")
    kind = type("Kind", (Asking,), {"rounds": list(rounds), "heard": []})
    server = await asyncssh.create_server(kind, "127.0.0.1", 0, server_host_keys=[str(key)])
    try:
        words = key.with_suffix(".pub").read_text().split()
        known = folder / "known"
        known.write_text(f"[127.0.0.1]:{server.get_port()} {words[0]} {words[1]}\n")
        target = Target("asks", host="127.0.0.1", port=server.get_port(), user="root", known_hosts=str(known))
        yield replace(target, config_file="/dev/null"), kind
    finally:
        server.close()


async def test_a_server_may_ask_its_own_questions(tmp_path: Path, shipped: Package) -> None:
    person = Person(["secret", "123456", "yes"])
    rounds: tuple[list[tuple[str, bool]], ...] = (
        [("Password: ", False)],
        [],
        [("Verification code: ", False), ("Sure?\x1b[2J ", True)],
    )
    async with asking(tmp_path, *rounds) as (target, kind):
        error = await refusal(target, shipped, person.ask)
    assert kind.heard[:3] == [["secret"], [], ["123456", "yes"]]
    assert [asked for asked, _ in person.asked[:3]] == ["password", "answer", "answer"]
    assert "Verification code" in person.asked[1][1] and all(what.isprintable() for _, what in person.asked)
    assert isinstance(error, NotLetIn)


async def test_a_server_cannot_ask_for_a_secret_that_is_remembered(tmp_path: Path, shipped: Package) -> None:
    person = Person(["open sesame"])
    remembered = Remembered(person.ask)
    assert await remembered.attempt()("passphrase", "/k") == "open sesame"
    assert await remembered.attempt()("passphrase", "/k") == "open sesame" and len(person.asked) == 1
    async with asking(tmp_path, [("passphrase for /k:", False), ("Password:", True)]) as (target, kind):
        await refusal(target, shipped, remembered.attempt())
    assert kind.heard == [] and [kind for kind, _ in person.asked] == ["passphrase", "answer"]


@pytest.mark.parametrize(
    ("prompt", "kind"),
    [
        ("Password:", "password"),
        ("(root@gpu.example) Password: ", "password"),
        ("root@gpu.example's password:", "password"),
        ("Password for key /k:", "answer"),
        ("passphrase:", "answer"),
        ("a" * 200_000 + "@" * 200_000, "answer"),
    ],
)
async def test_what_counts_as_a_password_is_judged_at_once(prompt: str, kind: str) -> None:
    person = Person(["x"])
    async with asyncio.timeout(5):
        await Passwords(Hop("h", "h", user="root"), person.ask).answers([(prompt, False)])
    assert [asked for asked, _ in person.asked] == [kind] and len(person.asked[0][1]) < 200


async def test_an_answer_that_is_good_once_is_not_remembered() -> None:
    person = Person(["123456", "654321"])
    remembered = Remembered(person.ask)
    assert [await remembered.attempt()("answer", "“code”") for _ in range(2)] == ["123456", "654321"]


async def test_a_dialogue_without_questions_is_not_begun_for_ever(tmp_path: Path, shipped: Package) -> None:
    async with asking(tmp_path, []) as (target, kind), asyncio.timeout(20):
        await refusal(target, shipped, Person([]).ask)
    assert len(kind.heard) == 1
