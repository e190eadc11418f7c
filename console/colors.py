"""How many colours the terminal shall get, and the line filters that keep to it.

Full colour needs nothing. With sixteen colours the words keep the terminal's own red, green and
amber, and all else is the terminal's foreground and background: our greys would turn into black
on black there. With NO_COLOR not even those are sent; bold, dim and reverse carry on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache

from rich.color import Color as RichColor
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from textual.color import Color
from textual.filter import LineFilter

_NORMAL_COLORS = 8


class Colors(StrEnum):
    """What the terminal gets."""

    FULL = "full"
    FEW = "few"
    NONE = "none"


def wanted_colors(environment: Mapping[str, str] | None = None) -> Colors:
    """By NO_COLOR (no-color.org: set and not empty), TEXTUAL_COLOR_SYSTEM, TERM and COLORTERM."""
    environment = dict(os.environ if environment is None else environment)
    if environment.pop("NO_COLOR", ""):
        return Colors.NONE
    system = environment.get("TEXTUAL_COLOR_SYSTEM") or "auto"
    if system == "auto":
        system = Console(force_terminal=True, _environ=environment).color_system or "standard"
    return Colors.FEW if system in ("standard", "windows") else Colors.FULL


class FewColors(LineFilter):
    """Colours of the themes' palettes become the terminal's own; every other one becomes its default."""

    def __init__(self, palettes: Sequence[TerminalTheme], enabled: bool = True) -> None:
        super().__init__(enabled)
        self._numbers = {
            tuple(palette.ansi_colors[number]): number
            for palette in palettes
            for number in range(1, _NORMAL_COLORS - 1)
        }

    @lru_cache(1024)  # noqa: B019  the app keeps one filter for its life
    def _style(self, style: Style) -> Style:
        color = style.color
        if style.reverse:
            # In reverse video the colours of words would become coloured boxes.
            kept = RichColor.default()
        elif color is None or color.triplet is None:
            kept = color if color is not None and color.number is not None else RichColor.default()
        else:
            number = self._numbers.get(tuple(color.triplet))
            kept = RichColor.default() if number is None else RichColor.from_ansi(number)
        return style + Style(color=kept, bgcolor=RichColor.default())

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            Segment(text, None if style is None else self._style(style), control) for text, style, control in segments
        ]
