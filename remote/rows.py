"""One line of `tokenized_data.jsonl`: is it a training row.

A row in the way we write it is checked on its bytes, without making numbers of them: that
is ten times cheaper than parsing and still sees the shape of every row. Whatever looks
different in the least is parsed and checked value by value.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from remote.jsonlines import BadJson, strict_loads
from remote.records import id_text


class RowVerdict(NamedTuple):
    """`code` is empty for a good row; `sample_id` as text where there is one."""

    code: str
    sample_id: str | None


_START = re.compile(rb'\{"sample_id": ?("[^"\\\x00-\x1f]*"|-?[1-9][0-9]{0,17}|0), ?"input_ids": ?\[')
_BETWEEN = re.compile(rb'\], ?"loss_mask": ?\[')
_DIGITS = b"0123456789"
_CAPACITY = 1 << 16
_COMMAS = b"," * _CAPACITY
_ZEROS = b"0," * _CAPACITY
_ONES = b"1," * _CAPACITY


def check_row(line: bytes) -> RowVerdict:
    """The verdict on one line that is not blank."""
    quick = _quick_id(line)
    if quick is not None:
        return RowVerdict("", quick)
    try:
        value = strict_loads(line)
    except BadJson as error:
        return RowVerdict(error.code, None)
    if not isinstance(value, dict):
        return RowVerdict("not-an-object", None)
    sample_id = id_text(value.get("sample_id"))
    if sample_id is None:
        return RowVerdict("no-sample-id", None)
    return RowVerdict(_fault(value.get("input_ids"), value.get("loss_mask")), sample_id)


def _fault(ids: Any, mask: Any) -> str:
    if not isinstance(ids, list) or not ids or set(map(type, ids)) != {int} or min(ids) < 0:
        return "bad-input-ids"
    if not isinstance(mask, list) or any(type(item) is not int or item not in (0, 1) for item in mask):
        return "bad-loss-mask"
    if len(mask) != len(ids):
        return "mask-length"
    return "" if any(mask) else "mask-all-zero"


def _quick_id(line: bytes) -> str | None:
    """The id of a good row in our own spelling: ids without blanks, mask zeros and then ones."""
    start = _START.match(line)
    if start is None:
        return None
    ids_end = line.find(b"]", start.end())
    between = _BETWEEN.match(line, ids_end) if ids_end >= 0 else None
    if between is None or not line.endswith(b"]}"):
        return None
    ids = line[start.end() : ids_end]
    mask = line[between.end() : -2]
    count = (len(mask) + 1) // 2
    if count > _CAPACITY or not ids[:1].isdigit() or not ids[-1:].isdigit():
        return None
    if ids.translate(None, _DIGITS) != _COMMAS[: count - 1] or b",," in ids:
        return None
    zeros = mask.find(b"1") // 2
    if zeros < 0 or mask != _ZEROS[: 2 * zeros] + _ONES[: 2 * (count - zeros) - 1]:
        return None
    # No number begins with a zero but zero itself; two zeros in a row look like one here and are parsed instead.
    if ids.count(b",0") != ids.count(b",0,") + ids.endswith(b",0") or (ids[:1] == b"0" and ids[1:2] != b","):
        return None
    try:
        text = start[1].decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text[1:-1] if text.startswith('"') else text
