"""The streamed comparison says of any two files what a comparison in memory says."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from remote.compare_rows import Compared, Comparison
from remote.training_rows import row_line

ROW = st.tuples(
    st.lists(st.integers(0, 9), min_size=1, max_size=4), st.lists(st.integers(0, 9), min_size=1, max_size=4)
)
ROWS = st.dictionaries(st.integers(0, 12).map(lambda number: f"s{number}"), ROW, max_size=10)


def _line(key: str, row: tuple[list[int], list[int]]) -> bytes:
    prompt, outputs = row
    return row_line(key, prompt, ",".join(map(str, outputs)).encode(), len(outputs))


def _compare(present: bytes | None, rows: dict[str, Any]) -> Compared:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "present.jsonl"
        if present is not None:
            path.write_bytes(present)
        with Comparison(path) as comparison:
            for key, row in rows.items():
                comparison.row(key, _line(key, row))
            return comparison.finish()


@settings(max_examples=60)
@given(ROWS, ROWS, st.data())
def test_it_counts_what_a_dictionary_counts(was: dict[str, Any], now: dict[str, Any], data: st.DataObject) -> None:
    # Some rows are common, so that identical beginnings, insertions, removals and changes all happen.
    for key in data.draw(st.sets(st.sampled_from(sorted(now)))) if now else ():
        was[key] = now[key]
    order = data.draw(st.permutations(sorted(was)))
    found = _compare(b"".join(_line(key, was[key]) for key in order), now)
    same = {key for key in now if was.get(key) == now[key]}
    both = was.keys() & now.keys()
    assert found.same == len(same)
    assert found.differ == len(both - same)
    assert found.added == len(now.keys() - was.keys())
    assert found.removed == found.lost == len(was.keys() - now.keys())
    assert found.present_rows == len(was)
    assert (found.verdict == "identical") == (list(order) == list(now) and len(same) == len(now) == len(was))
    for key in both - same:
        (old_prompt, old_answer), (new_prompt, new_answer) = was[key], now[key]
        if old_prompt != new_prompt and old_answer == new_answer:
            assert found.why.get("prompt")
        if old_answer != new_answer and old_prompt == new_prompt:
            assert found.why.get("answer")


@settings(max_examples=60)
@given(ROWS)
def test_a_file_against_itself_is_identical_and_against_nothing_new(rows: dict[str, Any]) -> None:
    present = b"".join(_line(key, row) for key, row in rows.items())
    assert _compare(present, rows) == Compared("identical", present_rows=len(rows), same=len(rows))
    assert _compare(None, rows).verdict == "new"


@settings(max_examples=60)
@given(ROWS.filter(bool), st.data())
def test_bad_and_repeated_lines_of_the_present_file_are_counted_as_such(
    rows: dict[str, Any], data: st.DataObject
) -> None:
    lines = [_line(key, row) for key, row in rows.items()]
    bad = data.draw(
        st.lists(st.sampled_from([b"{\n", b"[]\n", b"null\n", b'{"sample_id": true}\n', b"\xff\xfe\n"]), max_size=3)
    )
    twice = data.draw(st.lists(st.sampled_from(lines), max_size=3))
    found = _compare(b"".join(bad + lines + twice), rows)
    assert (found.unreadable, found.repeated, found.removed) == (len(bad), len(twice), 0)
    assert found.lost == len(bad)
    assert found.same == len(rows)


@settings(max_examples=60)
@given(ROWS.filter(bool))
def test_other_spelling_is_format_and_a_wrong_mask_is_mask(rows: dict[str, Any]) -> None:
    loose = b"".join(json.dumps(json.loads(_line(key, row))).encode() + b"\n" for key, row in rows.items())
    assert _compare(loose, rows).why == {"format": len(rows)}
    floats = b"".join(_line(key, row).replace(b"1]}", b"1.0]}") for key, row in rows.items())
    assert _compare(floats, rows).why == {"mask": len(rows)}
    cut = b"".join(_line(key, row).replace(b"1]}", b"0,1]}") for key, row in rows.items())
    assert _compare(cut, rows).why["mask"] == len(rows)
