"""Pure formatting for everything the operator reads: figures, ages, clocks, columns.

The figures come from `remote.figures`, because the container writes sentences with them too;
what only a terminal needs, its columns and narrow places, is here. Nothing here reads a clock.
"""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime

from remote.figures import (
    UNKNOWN,
    about,
    about_tokens,
    clock,
    count,
    duration,
    hours,
    limit,
    moment,
    percent,
    plural,
    rate,
    significant,
    size,
    tokens,
)
from widgets.breaking import breaks

__all__ = [
    "UNKNOWN", "about", "about_tokens", "age", "cells", "clock", "count", "cut", "day", "duration", "eta", "fit", "hours", "limit", "moment",
    "offset", "percent", "plural", "rate", "significant", "size", "tokens", "wrap",
]  # fmt: skip


def age(seconds: float | None) -> str:
    """How long ago: `0.4 s`, `42 s`, `2 h`, `3 d`: one unit, for a narrow place. Never negative."""
    if seconds is None:
        return UNKNOWN
    seconds = max(0.0, seconds)
    if seconds < 60:
        return duration(seconds)
    for unit_s, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= unit_s:
            return f"{int(seconds // unit_s)} {unit}"
    raise AssertionError("the last unit fits anything from 60 s on")


def day(epoch_s: float) -> str:
    """The day of a moment as logs write it, in UTC: `2026-12-01`."""
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%d")


def eta(seconds: float | None) -> str:
    """Time to go: `8 h 27 m`; `–` when unknown or endless."""
    return duration(seconds)


def offset(seconds: float | None) -> str:
    """A signed difference of clocks: `+0.2 s`, `-3 m 04 s`."""
    if seconds is None:
        return UNKNOWN
    return f"{'-' if seconds < 0 else '+'}{duration(abs(seconds))}"


def cells(text: str) -> int:
    """How many terminal cells cleaned text takes: wide characters two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(_cells(char) for char in text)


def _cells(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def cut(text: str, width: int) -> str:
    """As much of the beginning of `text` as `width` cells hold; a wide character is never halved."""
    used = 0
    for at, char in enumerate(text):
        used += _cells(char)
        if used > width:
            return text[:at]
    return text


def fit(text: str, width: int) -> str:
    """`text` in exactly `width` terminal cells: padded with blanks, or cut with `…`."""
    if width <= 0:
        return ""
    if cells(text) > width:
        text = cut(text, width - 1) + "…"
    return text + " " * (width - cells(text))


def wrap(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` cells, broken where a reader would (`widgets.breaking`). At least one line."""
    return [text[start:end] for start, end in breaks(text, max(2, width), cells)]
