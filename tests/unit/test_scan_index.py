"""The scanner's memory on disk: believed when it fits, forgotten when it does not, never a reason to fail."""

from __future__ import annotations

import json
import threading
from array import array
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote.layout import RESPONSES
from remote.packing import COLUMNS, pack, unpack
from remote.records import Rules
from remote.scan import RootScan, Scanner, scan_root
from tests.support.scan_events import comparable
from tests.support.tree import EOS_ID, line, make_tree, prompt, response, write_lines

RULES = Rules(eos_ids=frozenset({EOS_ID}))
B3 = "B3_magicoder"


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """An index of a whole tree beside it."""
    path = tmp_path / "index.json"
    scanner = Scanner(make_tree(tmp_path / "root", "end"), RULES, path)
    scanner.poll()
    assert scanner.save() and scanner.index_error is None
    return path


def _start(index: Path, rules: Rules = RULES) -> Scanner:
    return Scanner(index.parent / "root", rules, index)


def test_a_start_reads_no_data_and_says_the_same(index: Path) -> None:
    scanner = _start(index)
    found = comparable(scanner.poll())
    settling = scanner.bytes_read
    total = sum(path.stat().st_size for path in (index.parent / "root").glob("*/*.jsonl"))
    # Files changed within the last tick of their clock are compared once more, whole where they are small.
    assert settling == 0 or settling <= total
    assert found == comparable(scan_root(index.parent / "root", RULES))
    assert scanner.index_error is None


def test_appends_after_a_start_cost_their_bytes(index: Path) -> None:
    scanner = _start(index)
    scanner.poll()
    path = index.parent / "root" / B3 / RESPONSES
    new = line(response("B3-000001", 40))
    read = scanner.bytes_read
    with open(path, "ab") as file:
        file.write(new)
    found = scanner.poll()
    assert scanner.bytes_read - read <= len(new) + 8192
    assert comparable(found) == comparable(scan_root(index.parent / "root", RULES))


@pytest.mark.parametrize("tail", [b'{"half', line(response("B3-000001", 40))[:-1]])
def test_an_unfinished_line_is_seen_after_a_start(index: Path, tail: bytes) -> None:
    path = index.parent / "root" / B3 / RESPONSES
    with open(path, "ab") as file:
        file.write(tail)
    first = _start(index)
    read = -1
    while read != first.bytes_read:  # until the file's times are older than a tick of their clock
        read = first.bytes_read
        first.poll()
    assert first.save()
    second = _start(index)
    assert comparable(second.poll()) == comparable(scan_root(index.parent / "root", RULES))
    with open(path, "ab") as file:
        file.write(b"\n")
    assert comparable(second.poll()) == comparable(scan_root(index.parent / "root", RULES))


def test_ids_may_be_asked_for_from_several_threads_while_the_scan_goes_on(index: Path) -> None:
    root = index.parent / "root"
    for turn in range(15):
        scanner = _start(index)
        scan = scanner.poll()
        expected = {dataset.folder: dataset.answered for dataset in scan.datasets}
        together = threading.Barrier(4)

        def ask(scan: RootScan = scan, together: threading.Barrier = together) -> dict[str, int]:
            together.wait(30)
            return {dataset.folder: len(dataset.answered_ids()) for dataset in scan.datasets}

        with ThreadPoolExecutor(3) as pool:
            asked = [pool.submit(ask) for _ in range(3)]
            with open(root / B3 / RESPONSES, "ab") as file:
                file.write(line(response(f"orphan {turn}", 3)))
            together.wait(30)
            after = scanner.poll()
            assert all(one.result(30) == expected for one in asked)
        assert comparable(after) == comparable(scan_root(root, RULES))


def test_other_rules_are_another_key(index: Path) -> None:
    for rules in (Rules(), Rules(32_000, RULES.eos_ids), Rules(eos_ids=frozenset({1}))):
        scanner = _start(index, rules)
        assert comparable(scanner.poll()) == comparable(scan_root(index.parent / "root", rules))
        assert scanner.bytes_read > 0 and scanner.index_error is None


def test_another_root_is_another_key(index: Path) -> None:
    other = make_tree(index.parent / "other", "mid")
    scanner = Scanner(other, RULES, index)
    assert comparable(scanner.poll()) == comparable(scan_root(other, RULES))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: b"[]",
        lambda data: b"null",
        lambda data: b"\xff" + data,
        lambda data: data.replace(b'\\"offset\\":', b'\\"ofset\\":', 1),
        lambda data: data[:-40] + bytes([data[-40] ^ 1]) + data[-39:],
        lambda data: json.dumps({"key": json.loads(data)["key"]}).encode(),
    ],
)
def test_a_damaged_index_costs_time_and_nothing_else(index: Path, spoil: object) -> None:
    index.write_bytes(spoil(index.read_bytes()))  # type: ignore[operator]
    scanner = _start(index)
    assert comparable(scanner.poll()) == comparable(scan_root(index.parent / "root", RULES))
    assert scanner.index_error is not None and "read again" in scanner.index_error
    assert scanner.save() and scanner.index_error is None
    assert _start(index).poll().dataset(B3).tokens is not None


@pytest.mark.parametrize("arrays", ["", "AAAA", "eJwDAAAAAAE="])
def test_arrays_that_cannot_be_unpacked_are_read_again(index: Path, arrays: str) -> None:
    """A valid digest around nonsense: it shows only when somebody asks for the ids."""
    import hashlib

    value = json.loads(index.read_bytes())
    body = json.loads(value["body"])
    body[B3]["arrays"] = arrays
    value["body"] = json.dumps(body)
    value["digest"] = hashlib.sha256(value["body"].encode()).hexdigest()
    index.write_text(json.dumps(value))
    scanner = _start(index)
    found = scanner.poll().dataset(B3)
    found.answered_ids()
    assert comparable(scanner.poll()) == comparable(scan_root(index.parent / "root", RULES))


def test_nowhere_to_save_is_said_and_is_no_error(index: Path) -> None:
    scanner = Scanner(index.parent / "root", RULES, index.parent / "none" / "index.json")
    scanner.poll()
    assert scanner.save() is False
    assert scanner.index_error is not None and "cannot be written" in scanner.index_error
    assert Scanner(index.parent / "root", RULES).save()


def test_nothing_new_is_not_written_again(index: Path) -> None:
    scanner = _start(index)
    scanner.poll()
    scanner.save()
    before = index.stat().st_ino
    scanner.poll()
    assert scanner.save() and index.stat().st_ino == before


def test_ids_nobody_speaks_of_any_more_are_dropped(tmp_path: Path) -> None:
    path = write_lines(tmp_path / B3 / "prompts.jsonl", [])
    scanner = Scanner(tmp_path, RULES, tmp_path / "index.json")
    for round_ in range(6):
        write_lines(path, (prompt(f"{round_}-{number}") for number in range(1500)))
        write_lines(tmp_path / B3 / RESPONSES, [response(f"{round_}-7", 3), response("orphan", 3)])
        found = scanner.poll().dataset(B3)
        assert found.answered_ids() == {f"{round_}-7"} and found.classes.orphans == 1
    assert scanner.save()
    assert (tmp_path / "index.json").stat().st_size < 30_000
    assert comparable(Scanner(tmp_path, RULES, tmp_path / "index.json").poll()) == comparable(
        scan_root(tmp_path, RULES)
    )


_sizes = {"I": 2**32 - 1, "Q": 2**64 - 1, "B": 255}


@given(st.lists(st.text(max_size=5), max_size=5), st.data())
def test_packing_is_exact(names: list[str], data: st.DataObject) -> None:
    columns = [array(code, data.draw(st.lists(st.integers(0, _sizes[code]), max_size=6))) for code, _ in COLUMNS]
    assert unpack(pack(names, columns)) == (names, columns)
