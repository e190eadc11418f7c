"""Copying never pretends: inside tmux its own buffer gets the text, and a private file has it in any case."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.screens.copying import copy_path
from tests.support.needs import needs
from tests.ui.driving import press, running, until


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


async def test_a_file_has_it_and_is_private(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    async with running("incident") as (app, pilot, _):
        await press(pilot, "d", "y")
        await until(pilot, lambda: any("it is in" in note.message for note in app._notifications))
    assert copy_path().parent == own_folder
    assert "sample-count skip bypassed" in copy_path().read_text(encoding="utf-8")
    assert copy_path().stat().st_mode & 0o077 == 0


def ask_tmux(socket: Path, *words: str) -> str:
    command = ["tmux", "-S", str(socket), *words]
    return subprocess.run(command, check=True, timeout=20, capture_output=True, text=True).stdout


@pytest.fixture
def tmux(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A tmux server of its own, with the environment of a program inside it."""
    needs("tmux")
    socket = own_folder / "tmux"
    ask_tmux(socket, "new-session", "-d", "-x", "80", "-y", "24", "cat")
    monkeypatch.setenv("TMUX", f"{socket},{ask_tmux(socket, 'display', '-p', '#{pid}').strip()},0")
    yield socket
    ask_tmux(socket, "kill-server")


async def test_inside_tmux_its_buffer_has_it(tmux: Path) -> None:
    async with running("incident") as (app, pilot, _):
        await press(pilot, "j", "y")
        await until(pilot, lambda: any("tmux's buffer" in note.message for note in app._notifications))
    assert "OpenCodeInstruct" in ask_tmux(tmux, "show-buffer")


async def test_a_link_in_its_place_is_not_followed(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    victim = own_folder / "victim"
    victim.write_text("mine", encoding="utf-8")
    copy_path().symlink_to(victim)
    async with running("incident") as (app, pilot, _):
        await press(pilot, "y")
        await until(pilot, lambda: any("cannot be written" in note.message for note in app._notifications))
    assert victim.read_text(encoding="utf-8") == "mine"
