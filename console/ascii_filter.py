"""The last step before a terminal that cannot show more than ASCII: every cell becomes one or more plain cells.

Done once, on the finished lines, so that no widget has to know of it. Widths stay: what is two
cells wide becomes two characters.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_TABLE = {
    **dict.fromkeys("─━═╌╍┄┅▔▁", "-"),
    **dict.fromkeys("│┃║┆┇▏▎▌▐", "|"),
    **dict.fromkeys("╭╮╰╯┌┐└┘├┤┬┴┼╔╗╚╝┏┓┗┛", "+"),
    **dict.fromkeys("█▉▊▋▍▇▆", "#"),
    **dict.fromkeys("▅▄", "="),
    **dict.fromkeys("▃▂", "_"),
    "✓": "+",
    "✗": "x",
    "✘": "x",
    "●": "*",
    "○": "o",
    "◌": "o",
    "■": "#",
    "▲": "!",
    "▸": ">",
    "▶": ">",
    "▼": "v",
    "·": ".",
    "•": "*",
    "–": "-",
    "—": "-",
    "…": "~",
    "≥": ">",
    "≤": "<",
    "→": ">",
    "←": "<",
    "↑": "^",
    "↓": "v",
    "×": "x",
    "⏎": "\\",
    "␍": "\\",
    "‖": "=",
    "�": "?",
    "‹": "<",
    "›": ">",
    "“": '"',
    "”": '"',
    "’": "'",
    "°": "'",
    "±": "~",
    "²": "2",
    "≈": "~",
}
"""One plain character for each sign that the screens use; anything else becomes `?`."""


class AsciiFilter(LineFilter):
    """Draws every line in ASCII."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment if segment.control or segment.text.isascii() else Segment(plain(segment.text), segment.style)
            for segment in segments
        ]


def plain(text: str) -> str:
    """`text` in ASCII, as many cells wide as before."""
    return "".join(char if char.isascii() else _TABLE.get(char) or "?" * cell_len(char) for char in text)


def wants_ascii(environment: Mapping[str, str] | None = None) -> bool:
    """Whether the locale says that the terminal has no UTF-8: by `LC_ALL`, `LC_CTYPE`, `LANG`, the first that is set.

    Where nothing is set at all, UTF-8 is taken for granted: bare environments of containers and
    services are common, and terminals without it are not. Python sets `LC_CTYPE=C.UTF-8` itself
    in a C locale (PEP 538), so that one value says nothing and is passed over.
    """
    environment = os.environ if environment is None else environment
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        value = environment.get(name, "")
        if value and not (name == "LC_CTYPE" and value == "C.UTF-8"):
            return "utf" not in value.lower()
    return False
