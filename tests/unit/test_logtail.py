"""Pages of a log: whole lines, in order, none lost, none twice, whatever the page size."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remote.errors import OperatorError
from remote.logtail import after, before, search, tail

LINES = st.lists(st.text("ab é\r", max_size=12), max_size=30)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LINES, st.integers(1, 40), st.booleans())
def test_pages_backwards_join_to_the_whole_log(tmp_path: Path, lines: list[str], size: int, ended: bool) -> None:
    path = tmp_path / "run.log"
    data = "\n".join(lines).encode() + (b"\n" if ended and lines else b"")
    path.write_bytes(data)
    os.utime(path, (1, 1))
    widest = max((len(line.encode()) + 1 for line in lines), default=1)
    size = max(size, widest)
    pages, end = [], None
    while True:
        page = before(path, end, size)
        pages.insert(0, page)
        if page.start == 0:
            break
        assert page.start < page.end, "each page goes on"
        end = page.start
    offsets = [offset for page in pages for offset in page.offsets]
    assert offsets == _offsets(data)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LINES, st.integers(1, 40))
def test_pages_forwards_join_to_the_whole_log(tmp_path: Path, lines: list[str], size: int) -> None:
    path = tmp_path / "run.log"
    data = "".join(line + "\n" for line in lines).encode()
    path.write_bytes(data)
    size = max(size, max((len(line.encode()) + 1 for line in lines), default=1))
    offsets, at = [], 0
    while at < len(data):
        page = after(path, at, size)
        offsets += page.offsets
        assert page.end > at
        at = page.end
    assert offsets == _offsets(data)


def _offsets(data: bytes) -> list[int]:
    found, at = [], 0
    pieces = data.split(b"\n")
    for index, piece in enumerate(pieces):
        if piece or index < len(pieces) - 1:
            found.append(at)
        at += len(piece) + 1
    return found


def test_no_file_is_an_empty_log(tmp_path: Path) -> None:
    assert tail(tmp_path / "none").size == 0


def test_a_rotated_log_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("new\n")
    assert after(path, 5000).lines == ("new",)


def test_a_line_longer_than_a_page_is_given_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(b"x" * 100 + b"\n" + b"end\n")
    page = before(path, None, 20)
    assert page.lines == ("end",)
    page = before(path, page.start, 20)
    assert page.truncated and page.start < 101 - 19


def test_escape_sequences_are_shown_as_text(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(b"\x1b[2Jhello\xff\n")
    assert "\x1b" not in tail(path).lines[0] and "hello" in tail(path).lines[0]


def test_search_finds_every_match_and_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("".join(f"line {n} {'ERROR' if n % 1000 == 0 else 'ok'} {'x' * 200}\n" for n in range(5000)))
    page = search(path, r"error")
    assert [line.split()[1] for line in page.lines] == ["0", "1000", "2000", "3000", "4000"]
    data = path.read_bytes()
    assert all(data[offset:].startswith(b"line") for offset in page.offsets)
    assert not page.truncated


def test_a_line_that_is_being_written_is_left_for_later(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("whole\nhal")
    first = tail(path)
    assert first.lines == ("whole",)
    with path.open("a") as log:
        log.write("f\n")
    assert after(path, first.end).lines == ("half",)


def test_a_last_line_that_stays_unfinished_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("whole\nSegmentation fault")
    old = time.time() - 60
    os.utime(path, (old, old))
    assert tail(path).lines == ("whole", "Segmentation fault")


def test_a_folder_in_place_of_the_log_says_so(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="cannot read"):
        tail(tmp_path)
