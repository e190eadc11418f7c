"""Reading values that somebody else wrote: a wrong type becomes unknown and is noted, never an exception."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from remote.text import clean

T = TypeVar("T")

MAX_NOTES = 50
_WHOLE = 1 << 63


class Fields:
    """The members of one JSON object; every reader returns None (or empty) where the type is wrong.

    `where` names the object in notes (`datasets.B2_opencodeinstruct`); `notes` is shared by a
    whole tree and stops growing at `MAX_NOTES`.
    """

    def __init__(self, value: object, where: str, notes: list[str]) -> None:
        self.where = where
        self.notes = notes
        self._members: Mapping[str, Any] = value if isinstance(value, dict) else {}
        if value is not None and not isinstance(value, dict):
            self._note("", value, "an object")

    @property
    def present(self) -> bool:
        """Whether there is anything to read."""
        return bool(self._members)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def is_object(self, value: object) -> bool:
        """Whether this is the reader of that very object."""
        return self._members is value

    def raw(self, key: str) -> Any:
        """The member as it came, or None."""
        return self._members.get(key)

    def _note(self, key: str, value: object, wanted: str) -> None:
        if len(self.notes) < MAX_NOTES:
            place = f"{self.where}.{key}" if key else self.where
            self.notes.append(f"{clean(place, 80)} should be {wanted}, not {clean(repr(value), 60)}")

    def integer(self, key: str) -> int | None:
        """A whole number; `3.0` is taken for 3."""
        value = self.raw(key)
        if isinstance(value, float) and math.isfinite(value) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and -_WHOLE <= value < _WHOLE:
            return value
        if value is not None:
            self._note(key, value, "a whole number")
        return None

    def count(self, key: str) -> int | None:
        """A whole number that is not negative."""
        value = self.integer(key)
        if value is not None and value < 0:
            self._note(key, value, "0 or more")
            return None
        return value

    def number(self, key: str) -> float | None:
        """A finite number."""
        value = self.raw(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300:
            return float(value)
        if value is not None:
            self._note(key, value, "a number")
        return None

    def flag(self, key: str) -> bool | None:
        """True or false."""
        value = self.raw(key)
        if isinstance(value, bool):
            return value
        if value is not None:
            self._note(key, value, "true or false")
        return None

    def text(self, key: str, limit: int = 500) -> str | None:
        """One clean line."""
        value = self.raw(key)
        if isinstance(value, str):
            return clean(value, limit)
        if value is not None:
            self._note(key, value, "text")
        return None

    def texts(self, key: str, limit: int = 500, most: int = 1000) -> tuple[str, ...]:
        """A list of clean lines; members that are no text are left out."""
        value = self.raw(key)
        if isinstance(value, list):
            if any(not isinstance(item, str) for item in value):
                self._note(key, value, "a list of texts")
            return tuple(clean(item, limit) for item in value[:most] if isinstance(item, str))
        if value is not None:
            self._note(key, value, "a list of texts")
        return ()

    def counts(self, key: str) -> Mapping[str, int]:
        """An object of whole numbers, by name."""
        inner = self.child(key)
        found = {clean(name, 60): inner.count(name) for name in inner}
        return {name: count for name, count in found.items() if count is not None}

    def opaque(self, key: str) -> Mapping[str, Any] | None:
        """An object that is not ours to read, only to send back."""
        value = self.raw(key)
        if isinstance(value, dict):
            return value
        if value is not None:
            self._note(key, value, "an object")
        return None

    def child(self, key: str) -> Fields:
        """The object at `key`; empty where there is none."""
        return Fields(self.raw(key), f"{self.where}.{key}", self.notes)

    def children(self, key: str, read: Callable[[Fields], T | None], most: int = 10_000) -> tuple[T, ...]:
        """A list of objects, each read by `read`; those that it returns None for are left out."""
        value = self.raw(key)
        if value is None:
            return ()
        if not isinstance(value, list):
            self._note(key, value, "a list")
            return ()
        read_ones = (
            read(Fields(item, f"{self.where}.{key}[{index}]", self.notes)) for index, item in enumerate(value[:most])
        )
        return tuple(item for item in read_ones if item is not None)

    def members(self, key: str, read: Callable[[str, Fields], T | None], most: int = 10_000) -> tuple[T, ...]:
        """An object of objects, each read by `read(name, fields)`."""
        inner = self.child(key)
        names = list(inner)[:most]
        read_ones = (read(name, inner.child(name)) for name in names)
        return tuple(item for item in read_ones if item is not None)
