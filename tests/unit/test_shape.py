"""One description of the fields: what it reads, what it leaves unknown and says so, and what it tells again."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from console.lenient import Fields
from console.shape import Count, Counts, Flag, Incomplete, Line, Number, Word, read, told


@dataclass(frozen=True)
class Part:
    pid: Count
    note: Line = "none"


@dataclass(frozen=True)
class Value:
    count: Count | None = None
    share: Number | None = None
    word: Word = "unknown"
    open: Flag = False
    part: Part | None = None
    parts: tuple[Part, ...] = ()
    counts: Counts = field(default_factory=dict)


GOOD = {
    "count": 3,
    "share": 0.5,
    "word": "a",
    "open": True,
    "part": {"pid": 1, "note": "b"},
    "parts": [{"pid": 2, "note": "c"}],
    "counts": {"d": 4},
}


def made(value: object) -> tuple[Value, list[str]]:
    notes: list[str] = []
    return read(Value, Fields(value, "value", notes)), notes


def test_what_is_read_is_told_again() -> None:
    value, notes = made(GOOD)
    assert notes == [] and value.parts == (Part(2, "c"),)
    assert told(value) == GOOD and list(told(value)) == list(GOOD)


def test_what_is_missing_is_the_default_and_no_fault() -> None:
    assert made({}) == (Value(), [])


def test_empty_text_is_the_default_and_told_as_unknown() -> None:
    assert made({"word": ""})[0].word == "unknown"
    assert told(Part(1, ""))["note"] is None


@pytest.mark.parametrize("key", GOOD)
def test_a_wrong_type_is_the_default_and_noted_by_its_place(key: str) -> None:
    value, notes = made({**GOOD, key: 5 if key in ("word", "part", "parts", "counts", "open") else "five"})
    assert getattr(value, key) in (getattr(Value(), key), {})
    assert len(notes) == 1 and notes[0].startswith(f"value.{key} should be ")
    assert [name for name in GOOD if getattr(value, name) != getattr(made(GOOD)[0], name)] == [key]


def test_a_member_without_what_it_cannot_be_without_is_left_out() -> None:
    value, _ = made({"parts": [{"note": "x"}, {"pid": 7}, {"pid": "seven"}]})
    assert value.parts == (Part(7),)
    with pytest.raises(Incomplete):
        read(Part, Fields({}, "part", []))


def test_outside_names_and_what_is_left_out() -> None:
    assert told(Part(1), without="note", renamed={"pid": "id"}) == {"id": 1}
