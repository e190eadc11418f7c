"""Lines of styled text, and the small tools that fill them: what the trace, the preflight and the report are made of.

Every style is also told by a word or a mark, so that the plain text of a pipe says the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console import text

ASCII = str.maketrans({"✓": "v", "✗": "x", "·": "-", "–": "-", "≥": ">=", "…": "...", "→": "->", "▸": ">"})
NAME_WIDTH = 15
"""Columns of the name that a marked line begins with."""


@dataclass(frozen=True)
class Span:
    """A piece of a line: `style` is empty, title, dim, ok, warning, bad or key."""

    text: str
    style: str = ""


@dataclass(frozen=True)
class TraceLine:
    """One line: its spans, `level` (empty, warning, bad), and the folder of the dataset it is about, if one."""

    spans: tuple[Span, ...] = ()
    level: str = ""
    folder: str | None = None

    @property
    def text(self) -> str:
        """The line without styles, and without blanks at its end."""
        return "".join(span.text for span in self.spans).rstrip()


def plain(lines: Iterable[TraceLine], ascii_only: bool = False) -> str:
    """The lines as text for a pipe or a file: no escapes, one newline each; marks in ASCII when asked."""
    joined = "".join(f"{line.text}\n" for line in lines)
    return joined.translate(ASCII) if ascii_only else joined


def flow(spans: Sequence[Span], width: int, *, first: str, rest: str) -> list[TraceLine]:
    """Spans side by side, three blanks apart, going on in the next line where the width ends."""
    lines: list[TraceLine] = []
    current: list[Span] = [Span(first)]
    used = len(first)
    for span in spans:
        gap = 3 if len(current) > 1 else 0
        if gap and used + gap + text.cells(span.text) > width:
            lines.append(TraceLine(tuple(current)))
            current, used, gap = [Span(rest)], len(rest), 0
        if gap:
            current.append(Span(" " * gap))
        pieces = text.wrap(span.text, min(width - used - gap, width - len(rest)))
        for at, piece in enumerate(pieces):
            if at:
                lines.append(TraceLine(tuple(current)))
                current, used = [Span(rest)], len(rest)
            current.append(Span(piece, span.style))
            used += gap + text.cells(piece)
            gap = 0
    lines.append(TraceLine(tuple(current)))
    return lines


def marked(
    mark: str, style: str, name: str, body: str, evidence: str, width: int, folder: str | None = None
) -> list[TraceLine]:
    """A marked line: name, what was found, and the evidence at the right edge, or below where it does not fit."""
    lead = (Span(f"      {mark} ", style), Span(f"{name:<{NAME_WIDTH}}" if name else "", "dim"))
    indent = sum(text.cells(span.text) for span in lead)
    level = style if style in ("warning", "bad") else ""
    wrapped = text.wrap(body, width - indent)
    lines = []
    for at, part in enumerate(wrapped):
        before = lead if at == 0 else (Span(" " * indent),)
        lines.append(TraceLine((*before, Span(part, level)), level, folder))
    if evidence:
        room = width - indent - text.cells(wrapped[-1]) - 2
        if text.cells(evidence) <= room:
            last = lines[-1]
            gap = " " * (room - text.cells(evidence) + 2)
            lines[-1] = TraceLine((*last.spans, Span(gap), Span(evidence, "dim")), level, folder)
        else:
            lines += [
                TraceLine((Span(" " * indent), Span(part, "dim")), level, folder)
                for part in text.wrap(evidence, width - indent)
            ]
    return lines


def rows(value: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """The objects of the list at `key`; none where it is no list."""
    found = value.get(key)
    return [row for row in found if isinstance(row, Mapping)] if isinstance(found, Sequence) else []


def object_of(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The object at `key`; an empty one where it is none."""
    found = value.get(key)
    return found if isinstance(found, Mapping) else {}


def number(value: Mapping[str, Any], key: str) -> float | None:
    """The number at `key`; None where it is none."""
    found = value.get(key)
    return found if isinstance(found, (int, float)) and not isinstance(found, bool) else None


def whole(value: Mapping[str, Any], key: str) -> int:
    """The number at `key` as a whole one, 0 where it is none: for counts that are shown, not decided by."""
    return int(number(value, key) or 0)
