"""One description of a value's fields serves reading it from JSON and telling it as JSON.

A frozen dataclass says with each field's type what is taken for it: `Count` is a whole number that is not negative,
`Word` one clean line. `read` makes the value from whatever came, `told` gives its fields back. Nothing is written
down twice, so a new field is one line, in the class.

    @dataclass(frozen=True)
    class Disk:
        free_bytes: Count | None = None
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from console.lenient import Fields

T = TypeVar("T")
Reader = Callable[[Fields, str], Any]

MOST_MEMBERS = 1000
"""Of a longer list this many are read: nothing that a snapshot lists comes near it."""


def _text(limit: int) -> Reader:
    return lambda row, key: row.text(key, limit)


def _texts(limit: int) -> Reader:
    return lambda row, key: row.texts(key, limit, MOST_MEMBERS)


def _user_at_host(row: Fields, key: str) -> str | None:
    if isinstance(row.raw(key), str):
        return row.text(key, 120)
    person = row.child(key)
    return "@".join(word for word in (person.text("user", 80), person.text("host", 80)) if word)


Count = Annotated[int, Fields.count]
Whole = Annotated[int, Fields.integer]
Number = Annotated[float, Fields.number]
Flag = Annotated[bool, Fields.flag]
Word = Annotated[str, _text(80)]
Name = Annotated[str, _text(120)]
Line = Annotated[str, _text(500)]
LongLine = Annotated[str, _text(1000)]
Names = Annotated[tuple[str, ...], _texts(120)]
Lines = Annotated[tuple[str, ...], _texts(500)]
LongLines = Annotated[tuple[str, ...], _texts(1000)]
Who = Annotated[str, _user_at_host]
Counts = Annotated[Mapping[str, int], Fields.counts]
Opaque = Annotated[Mapping[str, Any], Fields.opaque]
"""An object that is not ours to read, only to send back."""


class Incomplete(LookupError):
    """An object lacks a field that its class cannot be without."""


def read(cls: type[T], row: Fields, **given: Any) -> T:
    """A `cls` from a JSON object: what is missing or has a wrong type is the field's default, and noted by `row`.

    `given` are fields known already. Raises Incomplete where a field without a default is missing.
    """
    values = dict(given)
    for name, (reader, default) in _shape(cls).items():
        if name in values:
            continue
        found = reader(row, name)
        if found is None and default is MISSING:
            raise Incomplete(f"{row.where}.{name}")
        # Empty text says no more than the default does.
        if found is not None and not (found == "" and isinstance(default, str)):
            values[name] = found
    return cls(**values)


def told(value: Any, without: str = "", renamed: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The fields of a dataclass as JSON, in their order; empty text is null, for nothing is known of it.

    `without` names fields to leave out, `renamed` those that have another name outside.
    """
    left_out, names = without.split(), renamed or {}
    return {
        names.get(item.name, item.name): _plain(getattr(value, item.name))
        for item in fields(value)
        if item.name not in left_out
    }


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return told(value)
    if isinstance(value, tuple):
        return [told(item) if is_dataclass(item) else item for item in value]
    if isinstance(value, Mapping):
        return dict(value)
    return None if value == "" else value


_SHAPES: dict[Any, dict[str, tuple[Reader, Any]]] = {}


def _shape(cls: Any) -> dict[str, tuple[Reader, Any]]:
    """Of each field its reader and its default (`MISSING` where it has none, None where that is made afresh)."""
    if cls not in _SHAPES:
        hints = get_type_hints(cls, include_extras=True)
        _SHAPES[cls] = {
            item.name: (_reader(hints[item.name]), item.default if item.default_factory is MISSING else None)
            for item in fields(cls)
        }
    return _SHAPES[cls]


def _reader(hint: Any) -> Reader:
    """What reads a field of this type: that of `Annotated`, or for a dataclass and a tuple of them the one made here."""
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (kind for kind in get_args(hint) if kind is not NoneType)
    if get_origin(hint) is Annotated:
        reader: Reader = hint.__metadata__[0]
        return reader
    if get_origin(hint) is tuple:
        return partial(_read_many, get_args(hint)[0])
    return partial(_read_part, hint)


def _read_part(cls: type[T], row: Fields, key: str) -> T | None:
    inner = row.child(key)
    return read(cls, inner) if inner.present else None


def _read_many(cls: type[T], row: Fields, key: str) -> tuple[T, ...]:
    def one(inner: Fields) -> T | None:
        try:
            return read(cls, inner)
        except Incomplete:
            return None

    return row.children(key, one, MOST_MEMBERS)
