"""What a look costs: bytes read, and what is noticed for them (F6, F7)."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from remote.checksums import BLOCK_BYTES
from remote.layout import RESPONSES
from remote.records import Rules
from remote.scan import Scanner, scan_root
from remote.watched import END_BYTES
from tests.support.scan_events import comparable
from tests.support.tree import line, make_tree, prompt, response, write_lines

RULES = Rules()
B3 = "B3_magicoder"
PER_FILE = 2 * END_BYTES


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of some blocks, whose times are old enough to be trusted."""
    write_lines(tmp_path / B3 / "prompts.jsonl", (prompt(number) for number in range(600)))
    made = write_lines(tmp_path / B3 / RESPONSES, (response(number, 1500) for number in range(500)))
    assert made.stat().st_size > 2 * BLOCK_BYTES
    return made


def _settled(root: Path) -> Scanner:
    """A scanner whose files were not changed within the last tick of their clock."""
    scanner = Scanner(root, RULES)
    scanner.poll()
    for _ in range(500):
        if not _bytes_of_next_poll(scanner):
            return scanner
    raise AssertionError("the files never settle")


def _bytes_of_next_poll(scanner: Scanner) -> int:
    before = scanner.bytes_read
    scanner.poll()
    return scanner.bytes_read - before


def test_idle_reads_nothing(tmp_path: Path) -> None:
    scanner = _settled(make_tree(tmp_path, "end"))
    assert [_bytes_of_next_poll(scanner) for _ in range(20)] == [0] * 20


def test_a_clock_set_back_does_not_make_every_look_a_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now_ns() - 3_600_000_000_000)
    scanner = _settled(make_tree(tmp_path, "mid"))
    assert [_bytes_of_next_poll(scanner) for _ in range(5)] == [0] * 5


def test_an_append_costs_its_bytes(path: Path) -> None:
    scanner = _settled(path.parents[1])
    for number in range(500, 540):
        new = line(response(number, 700))
        with open(path, "ab") as file:
            file.write(new)
        assert len(new) <= _bytes_of_next_poll(scanner) <= len(new) + PER_FILE
    assert scanner.poll().dataset(B3).responses == 540


def test_a_line_in_pieces_costs_its_bytes(path: Path) -> None:
    scanner = _settled(path.parents[1])
    new = line(response(500, 30_000))
    for at in range(0, len(new), 8192):
        piece = new[at : at + 8192]
        with open(path, "ab") as file:
            file.write(piece)
        assert len(piece) <= _bytes_of_next_poll(scanner) <= len(piece) + PER_FILE
    assert scanner.poll().dataset(B3).responses == 501


def test_a_small_file_costs_no_more(tmp_path: Path) -> None:
    path = write_lines(tmp_path / B3 / RESPONSES, [response(0, 3)])
    scanner = _settled(tmp_path)
    for number in range(1, 120):
        new = line(response(number, 3 + number % 20))
        with open(path, "ab") as file:
            file.write(new)
        assert _bytes_of_next_poll(scanner) <= len(new) + PER_FILE


def test_a_touch_rereads_and_changes_no_count(path: Path) -> None:
    scanner = _settled(path.parents[1])
    before = comparable(scanner.poll())
    os.utime(path, ns=(1, path.stat().st_mtime_ns))
    read = _bytes_of_next_poll(scanner)
    assert 0 < read <= path.stat().st_size, "compared by checksums, once"
    assert comparable(scanner.poll()) == before


@pytest.mark.parametrize("where", [10, BLOCK_BYTES + 77, -30])
def test_a_rewrite_of_the_same_size_with_its_time_put_back(path: Path, where: int) -> None:
    scanner = _settled(path.parents[1])
    status = path.stat()
    data = bytearray(path.read_bytes())
    data[where] ^= 1
    with open(path, "r+b") as file:
        file.write(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert comparable(scanner.poll()) == comparable(scan_root(path.parents[1], RULES))


@pytest.mark.parametrize("keep_head", [False, True])
def test_a_file_written_anew_and_longer_is_not_taken_for_an_append(path: Path, keep_head: bool) -> None:
    scanner = _settled(path.parents[1])
    old = path.read_bytes()
    cut = old.index(b"\n", END_BYTES) + 1 if keep_head else 0
    path.write_bytes(old[:cut] + line(response("orphan", 900)) + old[cut:])
    found = scanner.poll()
    assert found.dataset(B3).classes.orphans == 1
    assert comparable(found) == comparable(scan_root(path.parents[1], RULES))


def test_a_beginning_that_changed_with_an_append_is_seen_at_once(path: Path) -> None:
    scanner = _settled(path.parents[1])
    data = path.read_bytes()
    with open(path, "r+b") as file:
        file.write(data[:50].replace(b'"sample_id":0', b'"sample_id":9'))
        file.seek(0, os.SEEK_END)
        file.write(line(response(500, 3)))
    assert comparable(scanner.poll()) == comparable(scan_root(path.parents[1], RULES))


def test_the_background_pass_finds_what_no_time_tells(path: Path) -> None:
    """An old byte changed together with an append: the ends still fit, and only the checksum tells."""
    scanner = _settled(path.parents[1])
    data = path.read_bytes()
    at = data.index(b'"output_ids"', BLOCK_BYTES + 300_000)
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(b'"output_idz"')
        file.seek(0, os.SEEK_END)
        file.write(line(response(500, 3)))
    assert scanner.poll().dataset(B3).classes.unusable == 0
    steps = 0
    while scanner.poll().dataset(B3).classes.unusable == 0:
        assert 0 < scanner.background(BLOCK_BYTES) <= 2 * BLOCK_BYTES
        steps += 1
        assert steps < 20
    assert comparable(scanner.poll()) == comparable(scan_root(path.parents[1], RULES))


def test_the_background_pass_goes_round(tmp_path: Path) -> None:
    scanner = _settled(make_tree(tmp_path, "mid"))
    whole = scanner.background(1 << 40)
    sizes = sum(file.stat().st_size for file in tmp_path.glob("*/*.jsonl"))
    assert whole == sizes
    assert scanner.background(1) > 0, "at least one block, or it would never get on"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert Scanner(empty, RULES).background(1 << 20) == 0


def _coarse(status: os.stat_result) -> os.stat_result:
    """The same in ticks of 10 ms, as file times are kept where the kernel has no finer ones."""
    ticks = {name: getattr(status, name) // 10_000_000 * 10_000_000 for name in ("st_mtime_ns", "st_ctime_ns")}
    return os.stat_result(tuple(status), ticks)


def test_a_write_in_the_same_tick_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewrites of the same size right behind a look, so close that the file's times do not tell them apart."""
    path = write_lines(tmp_path / B3 / RESPONSES, [response(0, 3)])
    stat, fstat = os.stat, os.fstat
    monkeypatch.setattr(os, "stat", lambda *args, **named: _coarse(stat(*args, **named)))
    monkeypatch.setattr(os, "fstat", lambda fd: _coarse(fstat(fd)))
    scanner = Scanner(tmp_path, RULES)
    fd = os.open(path, os.O_WRONLY)
    try:
        for turn in range(200):
            number = turn % 10
            os.pwrite(fd, line(response(number, 3)), 0)
            assert scanner.poll().dataset(B3).answered_ids() == {str(number)}
    finally:
        os.close(fd)
