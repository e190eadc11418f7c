"""Whether the latest answers still think: how many of them lack the model's end-of-thinking token.

A template or engine setting that switches thinking off ruins a dataset quietly: the records stay
valid. Looking for one id in the last answers of a file costs a bounded read, and only when it grew.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from remote.layout import RESPONSES, Layout, folder_names
from remote.options import Options
from remote.records import Rules, read_record

END = "</think>"
SAMPLE = 40
TAIL_BYTES = 2 << 20
"""Forty answers of five thousand ids fit; of longer ones a few less are looked at."""

MAX_TOKENIZER_BYTES = 64 << 20
_OFF_KEYS = ("thinking", "enable_thinking")


class Thinking:
    """Looks at each dataset's latest answers; remembers what it found while a file keeps its size."""

    def __init__(self, layout: Layout, options: Options, rules: Rules) -> None:
        self._layout = layout
        self._rules = rules
        self._wanted = not _switched_off(options)
        self._model_path = options.model_path
        self._end_id: int | None = None
        self._asked = False
        self._known: dict[str, tuple[int, tuple[int, int]]] = {}

    def look(self) -> dict[str, tuple[int, int]]:
        """Folder to (answers looked at, those without the end of thinking); empty for a model that has no such token.

        Raises OSError when the root cannot be listed; a file that cannot be read is left out.
        """
        if not self._asked:
            self._end_id, self._asked = end_of_thinking(self._model_path), True
        if self._end_id is None or not self._wanted:
            return {}
        found: dict[str, tuple[int, int]] = {}
        for folder in sorted(folder_names(self._layout.root)):
            counted = self._count(folder, self._end_id)
            if counted is not None and counted[0]:
                found[folder] = counted
        return found

    def _count(self, folder: str, end_id: int) -> tuple[int, int] | None:
        path = self._layout.folder(folder) / RESPONSES
        try:
            size = path.stat().st_size
            known = self._known.get(folder)
            if known is not None and known[0] == size:
                return known[1]
            counted = count_without(path, end_id, self._rules)
        except OSError:
            return None  # the scan says what is wrong with the file
        self._known[folder] = (size, counted)
        return counted


def count_without(path: Path, end_id: int, rules: Rules) -> tuple[int, int]:
    """Of the last usable answers of a file (`SAMPLE` at most): how many, and how many lack `end_id`. Raises OSError."""
    with path.open("rb") as file:
        start = max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES)
        file.seek(start)
        lines = file.read(TAIL_BYTES).split(b"\n")
    # The first piece begins inside a line, the last one may be unfinished.
    whole = lines[1 if start else 0 : -1]
    looked_at = without = 0
    for line in reversed(whole):
        if looked_at == SAMPLE:
            break
        record = read_record(line, rules) if line.strip() else None
        if record is not None:
            looked_at += 1
            without += end_id not in record.output_ids
    return looked_at, without


def end_of_thinking(model_path: str | None) -> int | None:
    """The id of `</think>` in the model's tokenizer files; None where it has none or they cannot be read."""
    if not model_path:
        return None
    folder = Path(model_path)
    decoder = _read(folder / "tokenizer_config.json").get("added_tokens_decoder")
    for number, token in decoder.items() if isinstance(decoder, dict) else ():
        if isinstance(token, dict) and token.get("content") == END and number.isdecimal():
            return int(number)
    listed = _read(folder / "added_tokens.json").get(END)
    if isinstance(listed, int):
        return listed
    added = _read(folder / "tokenizer.json").get("added_tokens")
    for token in added if isinstance(added, list) else ():
        if isinstance(token, dict) and token.get("content") == END and isinstance(token.get("id"), int):
            return int(token["id"])
    return None


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_TOKENIZER_BYTES:
            return {}
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _switched_off(options: Options) -> bool:
    return any((options.template_kwargs or {}).get(key) is False for key in _OFF_KEYS)
