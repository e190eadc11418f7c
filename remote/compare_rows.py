"""New rows against the present tokenized_data.jsonl, streaming: identical, or how many rows differ and why.

While both files agree byte for byte, a row costs one read. From the first difference on, the rest of the present file
is indexed by sample id (ids and offsets alone stay in memory) and each new row is compared with its namesake.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from remote.text import clean

MAX_EXAMPLES = 20
_SAMPLE_ID = re.compile(rb'\s*\{\s*"sample_id"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)\s*[,}]')


@dataclass(frozen=True)
class Compared:
    """The verdict. `lost` rows are in the present file and not in the new one, or cannot be read there.

    A sample that the present file repeats is written once, which loses nothing: `repeated`.

    `verdict`: `new` (no present file), `identical` (the same bytes), `differs`. `why` counts what differs in rows that
    both have: `prompt`, `answer`, `mask`, `format` (same values, other bytes); a row may count under several.
    """

    verdict: str
    present_rows: int = 0
    same: int = 0
    differ: int = 0
    added: int = 0
    removed: int = 0
    repeated: int = 0
    unreadable: int = 0
    moved: int = 0
    why: dict[str, int] = field(default_factory=dict)
    examples: tuple[dict[str, str], ...] = ()

    @property
    def lost(self) -> int:
        """Rows that a swap would take away."""
        return self.removed + self.unreadable

    def sentence(self) -> str:
        """One line for a person."""
        if self.verdict != "differs":
            return {"new": "there was no file before", "identical": "identical to the present file"}[self.verdict]
        parts = [f"{number:,} rows differ in {what}" for what, number in sorted(self.why.items())]
        for number, what in (
            (self.added, "added"),
            (self.removed, "removed"),
            (self.repeated, "repeated before, written once"),
            (self.unreadable, "could not be read before"),
            (self.moved, "in another place"),
        ):
            if number:
                parts.append(f"{number:,} {what}")
        return f"{self.same:,} of {self.present_rows:,} rows the same; " + (", ".join(parts) or "other line ends")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "verdict": self.verdict,
            "present_rows": self.present_rows,
            "same": self.same,
            "differ": self.differ,
            "added": self.added,
            "removed": self.removed,
            "repeated": self.repeated,
            "unreadable": self.unreadable,
            "moved": self.moved,
            "why": dict(self.why),
            "examples": list(self.examples),
        }


class Comparison:
    """Takes the new rows in order; `finish` gives the verdict. A context manager: it holds the present file open."""

    def __init__(self, present: Path) -> None:
        try:
            self._fd = os.open(present, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self._fd = -1
        self._at = 0
        self._met: set[str] = set()
        self._index: dict[str, tuple[int, int]] | None = None
        self._furthest = -1
        self._count: Counter[str] = Counter()
        self._why: Counter[str] = Counter()
        self._examples: list[dict[str, str]] = []

    def __enter__(self) -> Comparison:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def row(self, key: str, line: bytes) -> None:
        """Compare one new row, given with its sample id and its newline. Raises OSError."""
        if self._fd < 0:
            return
        if self._index is None:
            if os.pread(self._fd, len(line), self._at) == line:
                self._at += len(line)
                self._met.add(key)
                self._count["same"] += 1
                return
            self._index = self._index_rest()
        place = self._index.pop(key, None)
        if place is None:
            self._note(key, "added")
            return
        offset, length = place
        if offset < self._furthest:
            self._count["moved"] += 1
        self._furthest = max(self._furthest, offset)
        present = os.pread(self._fd, length, offset)
        if present == line:
            self._count["same"] += 1
            return
        reasons = differences(present, line)
        if reasons == ("unreadable",):
            self._note(key, "unreadable")
            return
        self._why.update(reasons)
        self._note(key, "differ", ", ".join(reasons))

    def finish(self) -> Compared:
        """The verdict over all rows. Raises OSError."""
        if self._fd < 0:
            return Compared("new")
        if self._index is None and self._at == os.fstat(self._fd).st_size:
            return Compared("identical", present_rows=self._count["same"], same=self._count["same"])
        if self._index is None:
            self._index = self._index_rest()
        for key in self._index:
            self._note(key, "removed")
        count = self._count
        return Compared(
            "differs",
            present_rows=count["same"] + count["differ"] + count["removed"] + count["repeated"] + count["unreadable"],
            same=count["same"],
            differ=count["differ"],
            added=count["added"],
            removed=count["removed"],
            repeated=count["repeated"],
            unreadable=count["unreadable"],
            moved=count["moved"],
            why=dict(self._why),
            examples=tuple(self._examples),
        )

    def _note(self, key: str, what: str, detail: str = "") -> None:
        self._count[what] += 1
        if len(self._examples) < MAX_EXAMPLES:
            self._examples.append({"sample_id": clean(key, 80), "what": detail or what})

    def _index_rest(self) -> dict[str, tuple[int, int]]:
        """Sample id to (offset, length) of the present rows from the first difference on."""
        index: dict[str, tuple[int, int]] = {}
        for offset, line in _lines_from(self._fd, self._at):
            key = sample_id_of(line)
            if key is None:
                if line.strip():
                    self._note(f"line at byte {offset}", "unreadable")
            elif key in index or key in self._met:
                self._note(key, "repeated")
            else:
                index[key] = (offset, len(line))
        return index


def sample_id_of(line: bytes) -> str | None:
    """The sample id of a row as a string; None where the line is no row."""
    match = _SAMPLE_ID.match(line)
    try:
        value = json.loads(match[1]) if match else _object(line).get("sample_id")
    except (ValueError, RecursionError):
        return None
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else None


def differences(present: bytes, new: bytes) -> tuple[str, ...]:
    """What differs between two rows of one sample; (`unreadable`,) where the present one is no row."""
    try:
        was, now = _object(present), _object(new)
        was_ids, was_mask = _list(was, "input_ids"), _list(was, "loss_mask")
    except (ValueError, RecursionError):
        return ("unreadable",)
    now_ids, now_mask = now["input_ids"], now["loss_mask"]
    was_border = was_mask.index(1) if 1 in was_mask else len(was_ids)
    now_border = now_mask.index(1)
    found = []
    if was_ids != now_ids:
        if was_ids[:was_border] != now_ids[:now_border]:
            found.append("prompt")
        if was_ids[was_border:] != now_ids[now_border:]:
            found.append("answer")
    expected = now_mask if was_ids == now_ids else [0] * was_border + [1] * (len(was_ids) - was_border)
    # True and 1.0 equal 1 here, and stop a trainer all the same.
    if was_mask != expected or any(type(item) is not int for item in was_mask):
        found.append("mask")
    return tuple(found) or ("format",)


def _object(line: bytes) -> dict[str, Any]:
    value = json.loads(line)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def _list(row: dict[str, Any], key: str) -> list[Any]:
    value = row.get(key)
    if not isinstance(value, list):
        raise ValueError(f"{key} is not a list")
    return value


def _lines_from(fd: int, start: int) -> Iterator[tuple[int, bytes]]:
    with open(fd, "rb", closefd=False) as source:
        source.seek(start)
        offset = start
        for line in source:
            yield offset, line
            offset += len(line)
