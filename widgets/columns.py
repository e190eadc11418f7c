"""Columns and rows of a table as plain values, and a row as one line: the same on a screen and in a pipe.

Imports no Textual: commands that print a table start without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.text import Text

_EMPTY = Text("")


@dataclass(frozen=True)
class Column:
    """A column: `width` in cells; `align` is `left` or `right`."""

    id: str
    label: str
    width: int
    align: str = "left"


@dataclass(frozen=True)
class Row:
    """A row: `key` says which one it is across refreshes; `cells` by column id, the others stay empty."""

    key: str
    cells: Mapping[str, Text] = field(default_factory=dict)


def columns_width(columns: Sequence[Column], padding: int = 1) -> int:
    """Cells that the columns take up, their padding included."""
    return sum(column.width + 2 * padding for column in columns)


def same_text(one: Text, other: Text) -> bool:
    """Whether two texts look the same: letters and colours. (`Text.__eq__` does not compare the base style.)"""
    return one == other and one.style == other.style


def fitted(cell: Text, column: Column) -> Text:
    """A copy of a cell, cut or padded to the column's width: wide characters cannot shift what follows."""
    text = cell.copy()
    text.no_wrap = True
    text.truncate(column.width, overflow="ellipsis")
    gap = column.width - cell_len(text.plain)
    if gap > 0:
        text.pad_left(gap) if column.align == "right" else text.pad_right(gap)
    return text


def foot_line(columns: Sequence[Column], cells: Mapping[str, Text], padding: int = 1) -> Text:
    """A line below the table whose cells stand under its columns."""
    line = Text(no_wrap=True)
    for column in columns:
        line.append(" " * padding)
        line.append_text(fitted(cells.get(column.id, _EMPTY), column))
        line.append(" " * padding)
    return line
