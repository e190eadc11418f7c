"""One training row as the trainer sees it: every token, its mask, its border and its special tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, chop_cells
from rich.text import Text

from widgets.tones import DIM, GOOD, NOTE

_LINE = re.compile(r"[^⏎]*⏎|[^⏎]+")


@dataclass(frozen=True)
class Token:
    """A token: `text` cleaned for the screen; `mask` 1 where the loss counts."""

    id: int
    text: str
    mask: int
    special: bool = False


def token_rows(tokens: Sequence[Token], width: int = 100, shortened: int = 0) -> list[Text]:
    """The row as paragraphs of at most `width` cells: a heading where the mask changes, then its tokens.

    The mask is told three times over, so that colour is never needed: in the heading, by a bar
    at the left (`┃` trained, `┆` not), and by the tone. Special tokens stand in `‹›`.
    `shortened` says how many tokens were left out by whoever made the list.
    """
    out: list[Text] = []
    for mask, run in _runs(tokens):
        trained = mask == 1
        title = "trained on: mask 1" if trained else "not trained on: mask 0"
        out.append(Text(f"── {title}, {len(run):,} tokens ", GOOD if trained else DIM))
        out.extend(_paragraph(run, trained, max(8, width)))
    if shortened:
        out.append(Text(f"… {shortened:,} more tokens are not shown", DIM))
    return out


def _runs(tokens: Sequence[Token]) -> list[tuple[int, list[Token]]]:
    runs: list[tuple[int, list[Token]]] = []
    for token in tokens:
        if not runs or runs[-1][0] != token.mask:
            runs.append((token.mask, []))
        runs[-1][1].append(token)
    return runs


def _paragraph(run: Sequence[Token], trained: bool, width: int) -> list[Text]:
    edge = ("┃ ", GOOD) if trained else ("┆ ", DIM)
    lines = [Text.assemble(edge)]
    for words, special in _pieces(run):
        tone = f"bold {NOTE}" if special else "" if trained else DIM
        room = width - lines[-1].cell_len
        if cell_len(words) > room and cell_len(words) <= width - 2:
            lines.append(Text.assemble(edge))
            words = words.lstrip(" ") or words
            room = width - 2
        first, *rest = chop_cells(words, max(1, room)) if words else [""]
        lines[-1].append(first, tone)
        for piece in rest:
            lines += [Text.assemble(edge, (part, tone)) for part in chop_cells(piece, width - 2)]
        # A newline in the text is shown by its mark and then really taken.
        if words.endswith("⏎"):
            lines.append(Text.assemble(edge))
    return lines if lines[-1].cell_len > len(edge[0]) or len(lines) == 1 else lines[:-1]


def _pieces(run: Sequence[Token]) -> Iterator[tuple[str, bool]]:
    """The tokens' words, those with newlines in them cut after each, and whether they are special."""
    for token in run:
        if token.special:
            yield f"‹{token.text}›", True
        else:
            yield from ((piece, False) for piece in _LINE.findall(token.text) or [""])
