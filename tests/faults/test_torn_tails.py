"""F2: what stands at a file's end when we begin to append. Nothing is glued to it and no byte of it is lost."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.journal import Journal
from tests.support.disks import FOLDER, assert_safe, tiny_disk, write_answers
from tests.support.tree import line, response

WHOLE = line(response("s1", 4))
NEXT = line(response("next", 4))


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", "clean"),
        (WHOLE, "clean"),
        (b"\n", "clean"),
        (b"not json\n", "clean"),
        (WHOLE + WHOLE[:-1], "newline"),
        (WHOLE[:-1], "newline"),
        (WHOLE + WHOLE[:-2], "cut"),
        (WHOLE[:5], "cut"),
        (WHOLE + b"7", "cut"),
        (WHOLE + b"   ", "cut"),
        (WHOLE + b'{"a":1,"a":2}', "cut"),
        (WHOLE + b"x" * 200_000, "cut"),
    ],
)
def test_each_kind_of_end(tmp_path: Path, content: bytes, kind: str) -> None:
    path, torn = tmp_path / FOLDER / "raw_responses.jsonl", tmp_path / "torn"
    path.parent.mkdir()
    path.write_bytes(content)
    with Journal(path, torn) as journal:
        assert journal.repair.kind == kind
        journal.append(NEXT)
    kept = content[: content.rfind(b"\n") + 1]
    if kind == "cut":
        (saved,) = torn.iterdir()
        assert saved.read_bytes() == content[len(kept) :]
        assert saved == journal.repair.saved and f"torn-{len(kept)}-" in saved.name
        assert path.read_bytes() == kept + NEXT
    else:
        assert not torn.exists()
        assert path.read_bytes() == content + (b"\n" if kind == "newline" else b"") + NEXT


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([WHOLE, WHOLE[:-1], b"\n", b"{", b"}", b"\xff", b"x" * 70_000, b"\r"]), max_size=6))
def test_no_byte_is_lost_and_nothing_is_glued(pieces: list[bytes]) -> None:
    content = b"".join(pieces)
    with tempfile.TemporaryDirectory() as place:
        path, torn = Path(place) / "file.jsonl", Path(place) / "torn"
        path.write_bytes(content)
        with Journal(path, torn) as journal:
            journal.append(NEXT)
        after = path.read_bytes()
        assert after.endswith(NEXT) and (after == NEXT or after[: -len(NEXT)].endswith(b"\n"))
        set_aside = b"".join(saved.read_bytes() for saved in torn.iterdir()) if torn.exists() else b""
        before = after[: -len(NEXT)]
        if journal.repair.kind == "newline":
            before = before[:-1]
        assert before + set_aside == content


def _refused(path: Path, torn: Path) -> OperatorError:
    content = path.read_bytes()
    with pytest.raises(OperatorError) as caught:
        Journal(path, torn)
    assert path.read_bytes() == content, "when the copy fails, nothing is touched"
    assert caught.value.exit_code is ExitCode.DISK and "half a line" in str(caught.value)
    return caught.value


def test_a_copy_that_cannot_be_made_leaves_the_file_alone(tmp_path: Path) -> None:
    path, torn = tmp_path / "file.jsonl", tmp_path / "torn"
    path.write_bytes(WHOLE + b"{half")
    torn.write_bytes(b"a file where the folder should be")
    _refused(path, torn)


def test_a_disk_too_full_for_the_copy_leaves_the_file_alone() -> None:
    with tiny_disk("256k") as root:
        path, torn = root / "file.jsonl", root / "torn"
        path.write_bytes(WHOLE + b"x" * 150_000)
        error = _refused(path, torn)
        assert os.strerror(errno.ENOSPC) in str(error)
        assert list(torn.iterdir()) == [], "no half copy stays behind"


def test_a_copy_that_cannot_be_made_durable_leaves_the_file_alone(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    raw = tmp_path / FOLDER / "raw_responses.jsonl"
    raw.write_bytes(line(response("s0", 3)) + b'{"sample_id":"s1"')
    content = raw.read_bytes()
    done = write_answers(tmp_path, 3, fault={"path": "/torn/", "call": "fsync", "errno": errno.EIO})
    assert done.code == ExitCode.DISK and done.error is not None and done.error["code"] == "torn-tail"
    assert raw.read_bytes() == content and done.acknowledged == []
    again = write_answers(tmp_path, 3)
    assert again.code == 0 and again.repairs == ["cut"]
    assert_safe(tmp_path, ["s0", *again.acknowledged])


def test_a_torn_sidecar_is_repaired_too(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    sidecar = tmp_path / ".eagle3" / "answers" / f"{FOLDER}.jsonl"
    sidecar.parent.mkdir(parents=True)
    sidecar.write_bytes(b'{"sample_id":"s9"}\n{"samp')
    done = write_answers(tmp_path, 3)
    assert done.code == 0 and done.repairs == ["cut"]
    assert sidecar.read_bytes().startswith(b'{"sample_id":"s9"}\n{"sample_id"')
    assert len(sidecar.read_bytes().splitlines()) == 4
