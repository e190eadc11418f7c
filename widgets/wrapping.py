"""Breaking text into lines by terminal cells."""

from __future__ import annotations

from rich.cells import cell_len, chop_cells


def wrapped(words: str, width: int) -> list[str]:
    """`words` broken at blanks into lines of at most `width` cells; a longer word is cut. At least one line."""
    width = max(1, width)
    lines = [""]
    for word in words.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(longer) <= width:
            lines[-1] = longer
            continue
        pieces = chop_cells(word, width) if cell_len(word) > width else [word]
        lines = [*lines, *pieces] if lines[-1] else [*lines[:-1], *pieces]
    return lines
