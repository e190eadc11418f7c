"""A helper that starts wrongly, and the sentences of all failures side by side."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from console import link_errors
from console.bootstrap import SHELL_ARGV, start_agent
from console.link_errors import AgentDied, LinkError, StartTimeout, VersionDiffers
from console.local import LocalChannel
from console.pipe import AgentPipe
from console.ship import Package, pack
from remote.release import build_archive
from tests.support.needs import needs
from tests.support.sshd import wait_until_gone


def program(folder: Path, body: str) -> Package:
    """A package whose program is this."""
    sources = folder / "sources"
    sources.mkdir()
    (sources / "__init__.py").write_text("")
    (sources / "cli.py").write_text(f"import json, os, sys, time\n\ndef main():\n    {body}\n")
    return pack(build_archive(sources))


async def start(folder: Path, shipped: Package, **more: Any) -> AgentPipe:
    """Start it without SSH."""
    channel = await LocalChannel.start(SHELL_ARGV, {"PATH": "/usr/bin:/bin", "HOME": str(folder)})
    try:
        return await start_agent(channel, shipped, **more)
    except BaseException:
        await channel.close()
        raise


async def test_a_helper_of_another_release_is_named(tmp_path: Path) -> None:
    body = 'print("\\n" + sys.argv[-1], "ready", json.dumps({"release": "0123"}), flush=True); time.sleep(9)'
    shipped = program(tmp_path, body)
    with pytest.raises(VersionDiffers) as told:
        await start(tmp_path, shipped)
    assert "0123" in str(told.value) and shipped.release in str(told.value)


async def test_a_helper_that_fails_at_once_is_quoted(tmp_path: Path) -> None:
    with pytest.raises(AgentDied) as told:
        await start(tmp_path, program(tmp_path, 'sys.exit("no /proc here")'))
    assert "no /proc here" in str(told.value) and "exit status 1" in str(told.value)


async def test_a_helper_that_says_nothing_has_a_deadline_and_is_ended(tmp_path: Path) -> None:
    body = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(1000)"
    with pytest.raises(StartTimeout):
        await start(tmp_path, program(tmp_path, body), start_limit_s=2.0)
    wait_until_gone(int((tmp_path / "pid").read_text()))


async def test_a_helper_that_forges_nothing_with_an_older_marker(tmp_path: Path) -> None:
    needs("sh")
    body = 'print("e3-0000000000000000 ready {}", flush=True); sys.exit(5)'
    with pytest.raises(AgentDied) as told:
        await start(tmp_path, program(tmp_path, body))
    assert "exit status 5" in str(told.value)


SAMPLES: dict[str, tuple[Any, ...]] = {
    "HostNotFound": ("h", "no such name"),
    "Refused": ("h",),
    "Unreachable": ("h", "no route"),
    "ConnectTimeout": ("h", 10.0),
    "NotSsh": ("h", "silent"),
    "ServerBusy": ("h", "Exceeded MaxStartups"),
    "BrokenOff": ("h", "SSH-2.0-x", "reset"),
    "NoCommonAlgorithm": ("h", "no cipher"),
    "HostKeyUnknown": ("h", "SHA256:new", "h ssh-ed25519 AAAA", "/pins/h"),
    "HostKeyChanged": ("h", ["SHA256:old"], "SHA256:new", ["ssh-keygen -R h -f /k"]),
    "HostKeyRevoked": ("h", "SHA256:new"),
    "HostCertificateInvalid": ("h", "expired"),
    "NotLetIn": ("root", "h", ["~/.ssh/id_ed25519"]),
    "PassphraseNeeded": ("/k",),
    "LoginTimeout": ("h", 90.0, "agent key x"),
    "SshConfigFault": ("config line 3: bad",),
    "ProxyFailed": ("h", "gate", "refused"),
    "ChannelRefused": ("h", "open failed"),
    "TerminalOnly": ("h", ["no PTY"]),
    "ShellEnded": ("h", "exit status 1", ["bye"]),
    "StartTimeout": ("h", 30.0, "Python", []),
    "NoPython": ("h", [("python3", "3.9.2"), ("/opt/conda/bin/python3", "")], None),
    "NoRoom": ("h", "/tmp: full"),
    "DigestWrong": ("h", "it has x"),
    "AgentDied": ("h", "killed by KILL", []),
    "VersionDiffers": ("h", "a", "b"),
    "LinkLost": ("h", "reset"),
}


def test_every_failure_has_a_sentence_and_a_next_step_of_its_own() -> None:
    kinds = {
        name: kind
        for name, kind in vars(link_errors).items()
        if isinstance(kind, type) and issubclass(kind, LinkError) and kind is not LinkError
    }
    assert set(kinds) == set(SAMPLES)
    told = {name: kinds[name](*sample) for name, sample in SAMPLES.items()}
    assert len({error.code for error in told.values()}) == len(told)
    assert len({error.message for error in told.values()}) == len(told)
    assert len({error.remedy for error in told.values()}) == len(told)
    for name, error in told.items():
        assert error.remedy and "\n" not in str(error) and len(str(error)) < 400, name


def test_outside_text_in_a_sentence_is_cleaned() -> None:
    evil = "\x1b]0;owned\x07\nnext"
    for error in (
        link_errors.HostNotFound("h", evil),
        link_errors.NotSsh("h", evil),
        link_errors.ProxyFailed("h", "gate", evil),
        link_errors.NoRoom("h", evil),
        link_errors.SshConfigFault(evil),
        link_errors.LinkLost("h", evil),
        link_errors.VersionDiffers("h", "a", evil),
        link_errors.PassphraseNeeded(evil),
    ):
        assert str(error).isprintable(), type(error).__name__


def test_the_page_on_connecting_knows_every_code() -> None:
    page = (Path(link_errors.__file__).parent.parent / "docs" / "connecting.md").read_text("utf-8")
    rows = {
        code: line
        for line in page.splitlines()
        for code in re.findall(r"`([a-z-]+)`", line.split("|")[1:2][0] if line.startswith("|") else "")
    }
    for name, sample in SAMPLES.items():
        error = getattr(link_errors, name)(*sample)
        assert error.code in rows, name
        assert ("| yes |" in rows[error.code]) == (not error.permanent), name
