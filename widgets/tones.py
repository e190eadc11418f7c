"""The few colours that words may carry. A tone adds to a word and never replaces it.

The names are those of the terminal's own sixteen colours. Textual maps them to the palette of
the theme in use (`console/themes.py`), so one `Text` is right on dark, on light and on a
sixteen-colour terminal.
"""

from __future__ import annotations

GOOD = "green"
LOOK = "yellow"
ACT = "bold red"
NOTE = "cyan"
DIM = "dim"
STRONG = "bold"
CURVE = "dim cyan"
"""Bars and curves: large, therefore quiet."""
PLAIN = ""

UNKNOWN = "–"
"""What stands where a figure is not known; the reason is in the detail."""
