"""Breaking text into lines by terminal cells, where a reader would break it (`breaking`)."""

from __future__ import annotations

import re

from rich.cells import cell_len
from rich.text import Text

from widgets.breaking import breaks

_LEAD = re.compile(r" *(?:[·!✗✓▲→▸] +)?(?:\S{1,10} {2,})?")
"""What a line may begin with that its words do not go on under: a mark, and a word in a column of its own."""


def wrapped(words: str, width: int) -> list[str]:
    """`words` in lines of at most `width` cells. At least one line."""
    return [words[start:end] for start, end in breaks(words, width, cell_len)]


def hung(lead: Text, words: Text, width: int) -> list[Text]:
    """A lead and its words in lines of at most `width` cells, the words under one another."""
    indent = lead.cell_len
    out: list[Text] = []
    for start, end in breaks(words.plain, max(8, width - indent), cell_len):
        out.append(Text.assemble(" " * indent if out else lead, words[start:end]))
    return out


def wrapped_text(text: Text, width: int) -> list[Text]:
    """Styled text in lines of at most `width` cells; what goes on is indented to where the words began."""
    out: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        lead = _LEAD.match(line.plain)
        hang = cell_len(lead.group()) if lead else 0
        hang = hang if hang * 2 < width else 0
        for number, (start, end) in enumerate(breaks(line.plain, width, cell_len, hang)):
            out.append(Text.assemble(" " * hang, line[start:end]) if number else line[start:end])
    return out
