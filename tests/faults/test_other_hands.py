"""F3, F7: somebody else's hands on a file that we append to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.journal import Journal
from tests.support.disks import FOLDER, assert_safe, write_answers
from tests.support.tree import line, response

ONE, TWO, THREE = (line(response(f"s{number}", 4)) for number in range(3))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / FOLDER / "raw_responses.jsonl"
    made.parent.mkdir()
    return made


def test_a_second_process_is_refused_at_once(path: Path) -> None:
    root = path.parents[1]
    with Journal(path, root / "torn") as journal:
        journal.append(ONE)
        second = write_answers(root, 3)
        assert second.error is not None and second.error["code"] == "file-locked"
        assert second.acknowledged == []
        assert path.read_bytes() == ONE
    assert write_answers(root, 3).code == 0
    assert_safe(root, ["s0"])


def test_whole_lines_of_a_stranger_are_kept_and_do_not_stop_us(path: Path) -> None:
    with Journal(path, path.parent / "torn") as journal:
        journal.append(ONE)
        with open(path, "ab") as stranger:
            stranger.write(TWO)
        journal.append(THREE)
    assert path.read_bytes() == ONE + TWO + THREE


def test_nothing_is_glued_to_half_a_line_of_a_stranger(path: Path) -> None:
    with Journal(path, path.parent / "torn") as journal:
        journal.append(ONE)
        with open(path, "ab") as stranger:
            stranger.write(TWO[:9])
        for _ in range(2):
            with pytest.raises(OperatorError, match="somebody else is writing") as caught:
                journal.append(THREE)
            assert caught.value.code == "second-writer"
        with pytest.raises(OperatorError):
            journal.sync()
        with pytest.raises(OperatorError):
            journal.close()
    assert path.read_bytes() == ONE + TWO[:9]


@pytest.mark.parametrize("removed", [True, False])
def test_a_file_taken_away_under_us_takes_no_more_answers(path: Path, removed: bool) -> None:
    """Written to a file without a name, they would be lost with its descriptor."""
    journal = Journal(path, path.parent / "torn")
    journal.append(ONE)
    if removed:
        path.unlink()
    else:
        beside = path.with_name("beside")
        beside.write_bytes(ONE)
        os.replace(beside, path)
    with pytest.raises(OperatorError) as caught:
        journal.append(TWO)
    assert caught.value.code == "file-replaced"


def test_a_line_is_one_line(path: Path) -> None:
    with Journal(path, path.parent / "torn") as journal:
        for wrong in (b"", b"{}", b"{}\n{}\n", b"{\n}", b"\n{}"):
            with pytest.raises(ValueError):
                journal.append(wrong)
        journal.append(ONE)
    assert path.read_bytes() == ONE


@pytest.mark.parametrize("obstacle", ["folder", "fifo", "nothing"])
def test_what_is_no_file_is_refused_in_one_line(path: Path, obstacle: str) -> None:
    if obstacle == "folder":
        path.mkdir()
    elif obstacle == "fifo":
        os.mkfifo(path)
    else:
        path.parent.rmdir()
    with pytest.raises(OperatorError, match="raw_responses") as caught:
        Journal(path, path.parents[1] / "torn")
    assert caught.value.exit_code is ExitCode.DISK and caught.value.remedy
