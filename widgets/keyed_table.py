"""A table whose rows have keys: refreshed in place, so that cursor, order and scroll stay where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.text import Text
from textual.coordinate import Coordinate
from textual.widgets import DataTable
from textual.widgets.data_table import RowDoesNotExist


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


class KeyedTable(DataTable[Text]):
    """Shows columns and rows; `show` again with changed cells redraws those alone.

    The cursor stays on its row's key, not on its index, when rows come, go or change order.
    """

    DEFAULT_CSS = """
    KeyedTable { height: auto; background: transparent; scrollbar-size-vertical: 1; }
    KeyedTable.-stale { text-opacity: 55%; }
    KeyedTable > .datatable--header { text-style: none; color: $text-muted; background: transparent; }
    KeyedTable > .datatable--header-hover { background: transparent; color: $text-muted; }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(
            cursor_type="row",
            cursor_foreground_priority="renderable",
            zebra_stripes=False,
            header_height=1,
            show_row_labels=False,
            id=id,
            classes=classes,
        )
        self._columns: tuple[Column, ...] = ()
        self._rows: tuple[Row, ...] = ()

    @property
    def row_key(self) -> str | None:
        """The key of the row under the cursor, or None when there is no row."""
        if not self._rows or not 0 <= self.cursor_row < len(self._rows):
            return None
        return self._rows[self.cursor_row].key

    def row_text(self) -> str:
        """The row under the cursor as plain text, for copying."""
        if self.row_key is None:
            return ""
        row = self._rows[self.cursor_row]
        return "  ".join(text for column in self._columns if (text := row.cells.get(column.id, _EMPTY).plain.strip()))

    def show(self, columns: Sequence[Column], rows: Sequence[Row], stale: bool = False) -> None:
        """Show these rows; the least redrawing that does it."""
        self.set_class(stale, "-stale")
        columns, rows = tuple(columns), tuple(rows)
        same_order = [row.key for row in rows] == [row.key for row in self._rows]
        if columns == self._columns and same_order:
            self._update_cells(rows)
        else:
            self._rebuild(columns, rows)

    def point_at(self, key: str) -> None:
        """Put the cursor on a row; a key that is not there changes nothing."""
        try:
            self.move_cursor(row=self.get_row_index(key), animate=False)
        except RowDoesNotExist:
            return

    def _update_cells(self, rows: tuple[Row, ...]) -> None:
        before, self._rows = self._rows, rows
        for old, new in zip(before, rows, strict=True):
            for column in self._columns:
                cell = new.cells.get(column.id, _EMPTY)
                if not same_text(cell, old.cells.get(column.id, _EMPTY)):
                    self.update_cell(new.key, column.id, fitted(cell, column))

    def _rebuild(self, columns: tuple[Column, ...], rows: tuple[Row, ...]) -> None:
        here, scrolled, index = self.row_key, self.scroll_offset, self.cursor_row
        if columns != self._columns:
            self.clear(columns=True)
            for column in columns:
                self.add_column(fitted(Text(column.label), column), width=column.width, key=column.id)
        else:
            self.clear()
        self._columns, self._rows = columns, rows
        for row in rows:
            self.add_row(*(fitted(row.cells.get(column.id, _EMPTY), column) for column in columns), key=row.key)
        keys = [row.key for row in rows]
        at = keys.index(here) if here in keys else min(index, len(rows) - 1)
        self.cursor_coordinate = Coordinate(max(at, 0), 0)
        self.scroll_to(scrolled.x, scrolled.y, animate=False, immediate=True)


_EMPTY = Text("")


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
