"""`--debug` tells what the link did and carries no secret."""

from __future__ import annotations

import logging
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from console.transcript import LOGGERS, start_transcript
from tests.link.conftest import Connect
from tests.support.needs import needs, needs_root
from tests.support.sshd import Server, keygen, sshd, throwaway_user


@pytest.fixture
def transcript(tmp_path: Path) -> Iterator[Path]:
    """A transcript of this test alone."""
    path = tmp_path / "deep" / "transcript.log"
    start_transcript(path)
    yield path
    for name in LOGGERS:
        logger = logging.getLogger(name)
        for handler in [one for one in logger.handlers if one.get_name()]:
            handler.close()
            logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)


async def test_it_tells_stages_route_keys_and_noise(server: Server, connected: Connect, transcript: Path) -> None:
    needs_root("useradd")
    with throwaway_user("/bin/bash", {".bashrc": 'printf "\\033[31mMOTD\\n"\n'}) as user:
        async with connected(server.target(user.name)):
            pass
    text = transcript.read_text()
    assert stat.S_IMODE(transcript.stat().st_mode) == 0o600
    for word in ("route to", "connecting to", "signing in", str(server.identity), "MOTD", "python"):
        assert word in text
    assert "\x1b" not in text


async def test_it_holds_no_secret(folder: Path, connected: Connect, transcript: Path) -> None:
    needs("sshd", "ssh")
    locked = keygen(folder / "locked-for-transcript", passphrase="open sesame")

    async def ask(kind: str, what: str) -> str | None:
        return "open sesame"

    with sshd(folder, identity=locked) as strict:
        target = replace(strict.target(), name="secretive")
        async with connected(target, ask=ask) as pipe:
            await pipe.write(b'{"api_key": "sk-123"}\n')
            assert b"sk-123" in await pipe.read_line()
    text = transcript.read_text()
    assert "signing in" in text
    for secret in ("open sesame", "sk-123", "PRIVATE KEY", *locked.read_text().split("\n")[1:3]):
        assert secret not in text
