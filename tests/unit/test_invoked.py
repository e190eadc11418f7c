"""A command in a message can be typed as it stands."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from console.invoked import program


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Started by its path in a virtual environment that the shell does not search."""
    path = tmp_path / "its own" / ".venv" / "bin" / "eagle3-console"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\necho here\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sys, "argv", [str(path)])
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.chdir(tmp_path / "its own")
    return path


def test_the_path_is_said_where_the_shell_does_not_find_the_name(started: Path) -> None:
    assert program() == ".venv/bin/eagle3-console"
    assert subprocess.check_output(["/bin/sh", "-c", program()], text=True) == "here\n"


def test_from_another_folder_it_still_leads_there(
    started: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "some where" / "else"
    elsewhere.mkdir(parents=True)
    monkeypatch.chdir(elsewhere)
    assert subprocess.check_output(["/bin/sh", "-c", program()], text=True) == "here\n"


def test_the_name_is_enough_where_the_shell_finds_it(started: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{started.parent}:{os.environ['PATH']}")
    assert program() == "eagle3-console"
    monkeypatch.setattr(sys, "argv", ["-c"])
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert program() == "eagle3-console", "somebody else's program is never named"
