"""Pure formatting for everything the operator reads: figures, ages, clocks, columns.

The figures come from `remote.figures`, because the container writes sentences with them too;
what only a terminal needs, its columns and narrow places, is here. Nothing here reads a clock.
"""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size

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

__all__ = [
    "UNKNOWN", "about", "about_tokens", "age", "clock", "count", "duration", "eta", "fit", "hours", "limit", "moment",
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


def eta(seconds: float | None) -> str:
    """Time to go: `8 h 27 m`; `–` when unknown or endless."""
    return duration(seconds)


def offset(seconds: float | None) -> str:
    """A signed difference of clocks: `+0.2 s`, `-3 m 04 s`."""
    if seconds is None:
        return UNKNOWN
    return f"{'-' if seconds < 0 else '+'}{duration(abs(seconds))}"


def fit(text: str, width: int) -> str:
    """`text` in exactly `width` terminal cells: padded with blanks, or cut with `…`; wide characters counted."""
    if width <= 0:
        return ""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 1) + "…"


def wrap(text: str, width: int) -> list[str]:
    """`text` broken at blanks into lines of at most `width` cells; a longer word is cut. At least one line."""
    width = max(1, width)
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        candidate = f"{line} {word}" if line else word
        if cell_len(candidate) <= width:
            line = candidate
            continue
        if line:
            lines.append(line)
        while cell_len(word) > width:
            head = set_cell_size(word, width).rstrip(" ") or word[0]
            lines.append(head)
            word = word[len(head) :]
        line = word
    if line or not lines:
        lines.append(line)
    return lines
