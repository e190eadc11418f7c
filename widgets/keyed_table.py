"""A table whose rows have keys: refreshed in place, so that cursor, order and scroll stay where they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from widgets.columns import Column, Row, columns_width, foot_line, same_text


class KeyedTable(ScrollView, can_focus=True):
    """Shows columns and rows under a header that stays; `show` again draws only the rows that changed.

    The cursor stays on its row's key, not on its index, when rows come, go or change order.
    A table of its own, because Textual's draws all its cells again for each one that changes,
    which is most of what a console that is updated twice a second costs.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "keyed-table--header",
        "keyed-table--cursor",
        "keyed-table--cursor-blurred",
    }
    DEFAULT_CSS = """
    KeyedTable { height: auto; scrollbar-size-vertical: 1; overflow-x: hidden; }
    KeyedTable.-stale { text-opacity: 55%; }
    KeyedTable > .keyed-table--header { color: $text-muted; }
    KeyedTable > .keyed-table--cursor { background: $block-cursor-background; }
    KeyedTable > .keyed-table--cursor-blurred { background: $block-cursor-blurred-background; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "cursor_up", show=False),
        Binding("down", "cursor_down", show=False),
        Binding("pageup", "cursor_page(-1)", show=False),
        Binding("pagedown", "cursor_page(1)", show=False),
        Binding("home", "cursor_to(0)", show=False),
        Binding("end", "cursor_to(-1)", show=False),
        Binding("enter", "select", show=False),
    ]

    class Selected(Message):
        """Enter, or a click on the row under the cursor; `key` is the row's."""

        def __init__(self, key: str) -> None:
            self.key = key
            super().__init__()

    class Highlighted(Message):
        """The cursor came to another row."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._columns: tuple[Column, ...] = ()
        self._rows: tuple[Row, ...] = ()
        self._lines: dict[str, Text] = {}
        self._cursor = 0

    @property
    def cursor_row(self) -> int:
        """The index of the row under the cursor."""
        return self._cursor

    @property
    def row_key(self) -> str | None:
        """The key of the row under the cursor, or None when there is no row."""
        return self._rows[self._cursor].key if self._cursor < len(self._rows) else None

    def row_text(self) -> str:
        """The row under the cursor as plain text, for copying."""
        if self.row_key is None:
            return ""
        cells = self._rows[self._cursor].cells
        texts = (cells[column.id].plain.strip() for column in self._columns if column.id in cells)
        return "  ".join(text for text in texts if text)

    def show(self, columns: Sequence[Column], rows: Sequence[Row], stale: bool = False) -> None:
        """Show these rows; the least redrawing that does it."""
        self.set_class(stale, "-stale")
        columns, rows, here = tuple(columns), tuple(rows), self.row_key
        before = {row.key: row for row in self._rows} if columns == self._columns else {}
        changed = [at for at, row in enumerate(rows) if not _same_row(before.get(row.key), row)]
        moved = columns != self._columns or [row.key for row in rows] != [row.key for row in self._rows]
        self._columns, self._rows = columns, rows
        for at in changed:
            self._lines[rows[at].key] = foot_line(columns, rows[at].cells)
        if moved:
            keys = [row.key for row in rows]
            self._lines = {key: self._lines[key] for key in keys}
            self._cursor = keys.index(here) if here in keys else max(0, min(self._cursor, len(rows) - 1))
            self.virtual_size = Size(columns_width(columns), len(rows) + 1)
            self.refresh(layout=True)
            self.call_after_refresh(self._reveal)
        else:
            for at in changed:
                self._refresh_row(at)

    def point_at(self, key: str) -> None:
        """Put the cursor on a row; a key that is not there changes nothing."""
        for at, row in enumerate(self._rows):
            if row.key == key:
                self._move_to(at)

    def action_cursor_up(self) -> None:
        """A row up."""
        self._move_to(self._cursor - 1)

    def action_cursor_down(self) -> None:
        """A row down."""
        self._move_to(self._cursor + 1)

    def action_cursor_page(self, step: int) -> None:
        """As many rows as are seen."""
        self._move_to(self._cursor + step * max(1, self.size.height - 1))

    def action_cursor_to(self, row: int) -> None:
        """To a row by its index; -1 is the last one."""
        self._move_to(row if row >= 0 else len(self._rows) + row)

    def action_select(self) -> None:
        """The row under the cursor is meant."""
        if self.row_key is not None:
            self.post_message(self.Selected(self.row_key))

    def on_click(self, event: Click) -> None:
        row = event.y - 1 + self.scroll_offset.y
        if event.y < 1 or row >= len(self._rows):
            return
        event.stop()
        if row == self._cursor:
            self.action_select()
        else:
            self._move_to(row)

    def on_focus(self) -> None:
        self._refresh_row(self._cursor)

    def on_blur(self) -> None:
        self._refresh_row(self._cursor)

    def on_resize(self, event: Resize) -> None:
        self._reveal()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._rows) + 1

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, self.rich_style
        row = y - 1 + self.scroll_offset.y
        if y == 0:
            head = {column.id: Text(column.label) for column in self._columns}
            return self._strip(foot_line(self._columns, head), self.get_component_rich_style("keyed-table--header"))
        if row >= len(self._rows):
            return Strip.blank(width, base)
        style = base
        if row == self._cursor:
            name = "keyed-table--cursor" if self.has_focus else "keyed-table--cursor-blurred"
            style = base + self.get_component_rich_style(name, partial=True)
        return self._strip(self._lines[self._rows[row].key], style)

    def _strip(self, line: Text, style: Style) -> Strip:
        text = line.copy()
        text.end = ""
        text.stylize_before(style)
        return Strip(list(text.render(self.app.console))).adjust_cell_length(self.size.width, style)

    def _move_to(self, row: int) -> None:
        row = max(0, min(row, len(self._rows) - 1))
        if row == self._cursor:
            return
        before, self._cursor = self._cursor, row
        self._refresh_row(before)
        self._refresh_row(row)
        self._reveal()
        self.post_message(self.Highlighted())

    def _reveal(self) -> None:
        """Scroll no further than it takes to see the cursor."""
        seen = max(1, self.size.height - 1)
        top = min(self._cursor, max(self.scroll_offset.y, self._cursor - seen + 1))
        if top != self.scroll_offset.y:
            self.scroll_to(y=top, animate=False, immediate=True)

    def _refresh_row(self, row: int) -> None:
        self.refresh(Region(0, row + 1 - self.scroll_offset.y, self.size.width, 1))


def _same_row(one: Row | None, other: Row) -> bool:
    if one is None or one.cells.keys() != other.cells.keys():
        return False
    return all(same_text(cell, other.cells[name]) for name, cell in one.cells.items())
