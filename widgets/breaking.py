"""Where lines of text are broken: at blanks, and never between words that are read as one. Imports nothing that draws.

Kept together as long as they fit a line: a figure and its unit (`178 k`, `8 h 27 m`), a flag and its value, `pid 911`.
What is longer than a line is broken after a `/` or a comma, if it has one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

SEAMS = "/,"
LEAST_PIECE = 6
"""A seam nearer to the beginning than this would leave a few letters on a line of their own."""

_WORD = re.compile(r"[^ ]+")
_UNIT = re.compile(r"(?:[kMG]|%|[smhd]|[kMGT]?B|GiB|GPU-h|tok/s|°C|k?W)[).,;:]*")
_TIME = re.compile(r"\d [hmd]$")


def breaks(words: str, width: int, cells: Callable[[str], int], hang: int = 0) -> list[tuple[int, int]]:
    """Where the lines of `words` begin and end; at least one line. `cells` measures a piece of it.

    The first line has at most `width` cells, the others `hang` less, because they are indented by that. Blanks at
    the beginning are kept, those at a break are in no line. A character wider than a line is a line of its own.
    """
    lines: list[tuple[int, int]] = []
    room, rest = max(1, width), max(1, width - max(0, hang))
    start, end = 0, -1
    for first, last in _chunks(words):
        while last - start > 1 and cells(words[start:last]) > room:
            alone = end < 0
            # What a line of its own can hold is never broken.
            whole = not alone and cells(words[first:last]) <= rest
            at = None if whole else _cut(words, start, first, last, room, cells, alone)
            if at is None:
                lines.append((start, end))
                start = first
            else:
                lines.append((start, at))
                start = first = at + (words[at] == " ")
            room, end = rest, -1
        end = last
    return [*lines, (start, max(start, end))]


def _chunks(words: str) -> Iterator[tuple[int, int]]:
    """The words; those that belong together as one."""
    held: tuple[int, int] | None = None
    for match in _WORD.finditer(words):
        if held is not None and match.start() - held[1] == 1 and _belongs(words[held[0] : held[1]], match.group()):
            held = (held[0], match.end())
            continue
        if held is not None:
            yield held
        held = match.span()
    if held is not None:
        yield held


def _belongs(before: str, word: str) -> bool:
    """Whether a word is read as one with what stands before it."""
    last = before.rpartition(" ")[2]
    if _UNIT.fullmatch(word):
        return last[-1].isdigit()
    if last.startswith("--"):
        return last[-1].isalnum() and word[0] not in "-("
    if word[0].isdigit():
        return last == "pid" or last.endswith(":") or _TIME.search(before) is not None
    return last == "(key"


def _cut(
    words: str, start: int, first: int, last: int, room: int, cells: Callable[[str], int], must: bool
) -> int | None:
    """Where to break a chunk that no line can hold: at a blank, else after a seam, else, if it `must` be, where it is full."""
    full = start + 1
    while full < last and cells(words[start : full + 1]) <= room:
        full += 1
    if words[full] == " " and full > first:
        return full
    blank = words.rfind(" ", first, full)
    if blank > first and words[first:blank].strip(" "):
        return blank
    seam = max(words.rfind(seam, first, full) for seam in SEAMS) + 1
    if seam - first > (1 if must else LEAST_PIECE):
        return seam
    return full if must else None
