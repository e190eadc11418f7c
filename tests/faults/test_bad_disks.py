"""F11: the disk is full, read-only or failing in the middle of a line. Our own bytes are taken back, the rest stays."""

from __future__ import annotations

import errno
import subprocess
from pathlib import Path

import pytest

from remote.exitcodes import ExitCode
from tests.support.disks import (
    DEADLINE_S,
    FOLDER,
    assert_safe,
    child_command,
    child_environment,
    ends_whole,
    read_output,
    tiny_disk,
    write_answers,
)
from tests.support.needs import needs

RAW = f"{FOLDER}/raw_responses.jsonl"
COUNT = 60


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / FOLDER).mkdir()
    return tmp_path


def _then_all_is_written(root: Path, acknowledged: list[str]) -> None:
    """With the fault gone, a second run resumes and every prompt has exactly one answer."""
    again = write_answers(root, COUNT)
    assert again.code == 0
    assert_safe(root, acknowledged + again.acknowledged)
    lines = (root / RAW).read_bytes().splitlines()
    assert len(lines) == COUNT


@pytest.mark.parametrize(
    ("number", "short"),
    [(errno.ENOSPC, 0), (errno.ENOSPC, 11), (errno.EIO, 11), (errno.EFBIG, 0), (errno.EROFS, 0), (errno.EDQUOT, 11)],
)
def test_a_write_fails(root: Path, number: int, short: int) -> None:
    done = write_answers(root, COUNT, fault={"path": RAW, "call": "write", "errno": number, "nth": 9, "short": short})
    assert done.code == ExitCode.DISK and done.error is not None
    assert RAW in done.error["message"] and done.error["remedy"]
    assert ends_whole(root)
    assert_safe(root, done.acknowledged)
    assert len(done.acknowledged) >= 8
    if number == errno.ENOSPC:
        _then_all_is_written(root, done.acknowledged)


def test_a_limit_on_the_file_size(root: Path) -> None:
    done = write_answers(root, COUNT, limit=20_000)
    assert done.code == ExitCode.DISK and done.error is not None and "ulimit" in done.error["remedy"]
    assert ends_whole(root) and (root / RAW).stat().st_size <= 20_000
    assert_safe(root, done.acknowledged)
    _then_all_is_written(root, done.acknowledged)


def test_a_full_disk() -> None:
    with tiny_disk("64k") as root:
        (root / FOLDER).mkdir()
        done = write_answers(root, COUNT)
        assert done.code == ExitCode.DISK and done.error is not None and "free space" in done.error["remedy"]
        assert ends_whole(root)
        assert_safe(root, done.acknowledged)
        assert done.acknowledged


def test_what_cannot_be_taken_back_is_said_and_set_aside_later(root: Path) -> None:
    short = 50
    done = write_answers(
        root,
        COUNT,
        fault={"path": RAW, "call": "write", "errno": errno.EIO, "nth": 9, "short": short, "call2": "ftruncate"},
    )
    assert done.code == ExitCode.DISK and done.error is not None
    assert f"half a line ({short} bytes) is left" in done.error["message"]
    assert not ends_whole(root)
    assert_safe(root, done.acknowledged)
    again = write_answers(root, COUNT)
    assert again.code == 0 and again.repairs == ["cut"]
    assert_safe(root, done.acknowledged + again.acknowledged)
    (saved,) = (root / ".eagle3/torn").iterdir()
    assert saved.stat().st_size == short


def test_a_failed_fsync_is_not_tried_again(root: Path) -> None:
    """The second fsync would succeed, and would mean nothing."""
    done = write_answers(root, COUNT, 1, fault={"path": RAW, "call": "fsync", "errno": errno.EIO, "nth": 4, "times": 1})
    assert done.code == ExitCode.DISK and done.error is not None and "durable" in done.error["message"]
    lines = (root / RAW).read_bytes().splitlines()
    assert len(done.acknowledged) == 3 and len(lines) == 4, "the fourth is written, and never acknowledged"
    assert_safe(root, done.acknowledged)
    _then_all_is_written(root, done.acknowledged)


def test_a_failed_fsync_counted_by_the_kernel(root: Path) -> None:
    """The same without the shim: strace makes the third fsync of the answers fail."""
    needs("strace")
    (root / RAW).write_bytes(b"")
    inject = ["strace", "-f", "-o", "/dev/null", "-P", str(root / RAW), "-e", "inject=fsync:error=EIO:when=3"]
    done = subprocess.run(
        [*inject, *child_command(root, COUNT, 1)],
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    if "ptrace" in done.stderr and "not permitted" in done.stderr:
        pytest.skip("needs the right to trace (CAP_SYS_PTRACE)")
    written = read_output(done.returncode, done.stdout, done.stderr)
    assert written.code == ExitCode.DISK and len(written.acknowledged) == 2
    assert_safe(root, written.acknowledged)


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_the_sidecar_fails_first(root: Path, call: str) -> None:
    """No record without its provenance: when the sidecar cannot be written, the record is not."""
    done = write_answers(
        root, COUNT, 1, fault={"path": f"answers/{FOLDER}", "call": call, "errno": errno.ENOSPC, "nth": 4}
    )
    assert done.code == ExitCode.DISK and done.error is not None and "answers" in done.error["message"]
    assert len((root / RAW).read_bytes().splitlines()) == len(done.acknowledged) == 3
    _then_all_is_written(root, done.acknowledged)


def test_fsync_by_time_still_fails_loudly_at_the_end(root: Path) -> None:
    done = write_answers(root, COUNT, 4, 3600, fault={"path": RAW, "call": "fsync", "errno": errno.EIO})
    assert done.code == ExitCode.DISK and done.error is not None
    assert len(done.acknowledged) == COUNT, "acknowledged means written, where the operator chose fsync by time"
