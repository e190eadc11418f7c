"""One training row decoded for the eyes: every token with its text, its mask and where the answer begins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from remote.errors import OperatorError
from remote.layout import TOKENIZED, Layout
from remote.options import Options
from remote.render import Tokenizer, load_tokenizer
from remote.text import clean

TOKEN_CHARS = 60


def decode_row(
    layout: Layout, folder: str, row: int, options: Options, tokenizer: Tokenizer | None = None
) -> dict[str, Any]:
    """Row number `row`, counted from 1 as lines are, of a dataset's tokenized_data.jsonl.

    Gives `{"folder", "row", "sample_id", "prompt_tokens", "answer_tokens", "border", "tokens": [{"id", "text", "mask",
    "special"}], "problems": [text]}`; `border` is the place in `tokens` where the answer begins; texts are cleaned.
    Raises OperatorError: `no-row`, `bad-row`, and those of `load_tokenizer`.
    """
    path = layout.folder(folder) / TOKENIZED
    value = _parse(path, row, _line(path, row))
    ids, mask = value["input_ids"], value["loss_mask"]
    tokenizer = tokenizer or load_tokenizer(options)
    special = tokenizer.special_ids
    texts: dict[int, str] = {}
    for number in ids:
        if number not in texts:
            texts[number] = clean(tokenizer.decode([number]), TOKEN_CHARS)
    border = mask.index(1) if 1 in mask else len(ids)
    return {
        "folder": folder,
        "row": row,
        "sample_id": value.get("sample_id"),
        "prompt_tokens": border,
        "answer_tokens": len(ids) - border,
        "border": border,
        "tokens": [
            {
                "id": number,
                "text": texts[number],
                "mask": mask[place] if place < len(mask) else None,
                "special": number in special,
            }
            for place, number in enumerate(ids)
        ],
        "problems": row_problems(ids, mask),
    }


def row_problems(ids: list[int], mask: list[Any]) -> list[str]:
    """What a trainer would stumble over in a row; empty for a row as we write it."""
    found = []
    if len(ids) != len(mask):
        found.append(f"{len(ids):,} ids and {len(mask):,} mask values")
    if any(item not in (0, 1) or type(item) is not int for item in mask):
        found.append("the mask holds something else than 0 and 1")
    elif 1 not in mask:
        found.append("the mask is all zeros: trainers drop it silently")
    elif 0 in mask[mask.index(1) :]:
        found.append("the mask has zeros inside the answer")
    return found


def _line(path: Path, row: int) -> bytes:
    try:
        with path.open("rb") as source:
            for number, line in enumerate(source, 1):
                if number == row:
                    return line
    except OSError as error:
        raise OperatorError(
            "no-row", f"{clean(path)} cannot be read ({error.strerror or error})", "retokenize the dataset first"
        ) from None
    raise OperatorError("no-row", f"{clean(path)} has no row {row}", "rows are counted from 1")


def _parse(path: Path, row: int, line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
        ids, mask = value["input_ids"], value["loss_mask"]
        good = isinstance(mask, list) and isinstance(ids, list) and all(type(item) is int for item in ids)
    except (ValueError, KeyError, TypeError, RecursionError):
        good = False
    if not good:
        raise OperatorError(
            "bad-row", f"line {row} of {clean(path)} is no training row", "retokenize the dataset to write it again"
        )
    found: dict[str, Any] = value
    return found
