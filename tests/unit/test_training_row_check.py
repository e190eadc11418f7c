"""What a training row is (F8), by the quick look at its bytes and by the slow one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote.jsonlines import BadJson, strict_loads
from remote.problems import MEANINGS
from remote.rows import _fault, _quick_id, check_row
from tests.support.tree import line, response, row


def _row(**changes: Any) -> bytes:
    value = {"sample_id": "a", "input_ids": [1, 2, 30], "loss_mask": [0, 1, 1], **changes}
    return json.dumps({key: item for key, item in value.items() if item is not ...}, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    "text",
    [
        _row(),
        _row(sample_id=7),
        _row(sample_id="日本"),
        _row(sample_id='q"'),
        _row(loss_mask=[1, 1, 1]),
        _row(loss_mask=[1, 0, 1]),
        json.dumps(json.loads(_row())).encode(),
        _row(extra=1),
        _row() + b"\r",
        b"\xef\xbb\xbf" + _row(),
        _row(input_ids=list(range(70_000)), loss_mask=[0] * 10 + [1] * 69_990),
        line(row(response("a", 9)))[:-1],
    ],
)
def test_good_rows(text: bytes) -> None:
    assert check_row(text).code == ""


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (_row()[:-1], "bad-json"),
        (_row().replace(b"2,", b"2,,"), "bad-json"),
        (_row().replace(b"2,", b"02,"), "bad-json"),
        (_row().replace(b"[1,", b"[,"), "bad-json"),
        (_row().replace(b'"a"', b'"\xff"'), "bad-utf8"),
        (b"[]", "not-an-object"),
        (_row(sample_id=...), "no-sample-id"),
        (_row(sample_id=1.5), "no-sample-id"),
        (_row(input_ids=...), "bad-input-ids"),
        (_row(input_ids=[], loss_mask=[]), "bad-input-ids"),
        (_row(input_ids=[1, 2.0, 3]), "bad-input-ids"),
        (_row(input_ids=[1, -2, 3]), "bad-input-ids"),
        (_row(input_ids="AA"), "bad-input-ids"),
        (_row(loss_mask=...), "bad-loss-mask"),
        (_row(loss_mask=[0, 1, 2]), "bad-loss-mask"),
        (_row(loss_mask=[0, 1.0, 1]), "bad-loss-mask"),
        (_row(loss_mask=[0, True, 1]), "bad-loss-mask"),
        (_row(loss_mask=[0, 1]), "mask-length"),
        (_row(loss_mask=[0, 0, 1, 1]), "mask-length"),
        (_row(loss_mask=[0, 0, 0]), "mask-all-zero"),
    ],
)
def test_bad_rows(text: bytes, code: str) -> None:
    assert check_row(text).code == code
    assert code in MEANINGS


_piece = st.sampled_from([b",", b"0", b"1", b" ", b"[", b"]", b"-", b".", b'"', b"e", b"\\", b"\xff", b",0", b"}", b""])


@given(
    st.lists(st.integers(0, 999), min_size=1, max_size=8),
    st.integers(0, 9),
    st.integers(0, 9),
    st.lists(st.tuples(st.integers(0, 90), st.integers(0, 3), _piece), max_size=2),
)
def test_the_quick_look_never_says_yes_to_a_bad_row(
    ids: list[int], zeros: int, ones: int, edits: list[tuple[int, int, bytes]]
) -> None:
    text = _row(input_ids=ids, loss_mask=[0] * zeros + [1] * ones)
    for at, length, piece in edits:
        text = text[:at] + piece + text[at + length :]
    quick = _quick_id(text)
    if quick is None:
        return
    try:
        value = strict_loads(text)
    except BadJson as error:
        raise AssertionError(f"{text!r} is {error.code}") from None
    assert str(value["sample_id"]) == quick
    assert _fault(value["input_ids"], value["loss_mask"]) == ""


def test_the_quick_look_takes_what_we_write() -> None:
    assert _quick_id(line(row(response("a", 9)))[:-1]) == "a"
