"""The scanner's memory on disk: a start costs the reading of this file, not of the data.

One JSON object. Small things lie open; the arrays lie packed in one block per dataset
(bytes of equal weight side by side, so that zlib finds the zeros and the order) and are
unpacked only when somebody needs the ids. The index is believed only under the same
format, rules, vocabulary, root and byte order, and only with its digest intact; each file's
stamp is compared again before its memory counts.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from array import array
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from remote.dataset_memory import DatasetMemory
from remote.layout import write_whole
from remote.packing import BAD_PACK, pack, unpack
from remote.records import RULES_VERSION, Rules
from remote.tables import LineTable

FORMAT = 2
MAX_INDEX_BYTES = 64 << 20


def index_key(root: str, rules: Rules) -> dict[str, Any]:
    """Everything that the memory depends on besides the files themselves."""
    return {
        "format": FORMAT,
        "rules": RULES_VERSION,
        "root": root,
        "vocab_size": rules.vocab_size,
        "eos_ids": sorted(rules.eos_ids),
        "byteorder": sys.byteorder,
        "itemsizes": [array(code).itemsize for code in "BIQ"],
    }


def save_index(path: Path, key: dict[str, Any], memories: Iterable[DatasetMemory]) -> None:
    """Replace the index whole. Raises OSError and leaves the old one."""
    body = json.dumps({memory.folder: _state(memory) for memory in memories}, separators=(",", ":"))
    digest = hashlib.sha256(body.encode()).hexdigest()
    write_whole(path, json.dumps({"key": key, "digest": digest, "body": body}).encode() + b"\n")


def load_index(
    path: Path, key: dict[str, Any], make: Callable[[str], DatasetMemory]
) -> tuple[dict[str, DatasetMemory], str | None]:
    """The memories that the index holds, by folder, and what was wrong with it, or None.

    Without an index, or with one made under another key, there are none and nothing is wrong.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_INDEX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return {}, None
    except OSError as error:
        return {}, f"the scan's index cannot be read: {error.strerror}"
    try:
        value = json.loads(data)
        if value["key"] != key:
            return {}, None
        body = value["body"]
        if hashlib.sha256(body.encode()).hexdigest() != value["digest"]:
            return {}, "the scan's index is damaged: everything is read again"
        return {folder: _restored(make(folder), state) for folder, state in json.loads(body).items()}, None
    except BAD_PACK as error:
        return {}, f"the scan's index is damaged ({type(error).__name__}): everything is read again"


def _state(memory: DatasetMemory) -> dict[str, Any]:
    """One dataset, up to the last complete line of each file: what follows is read again anyway."""
    if memory.packed_state is not None:
        return memory.packed_state
    prompts, responses, rows = memory.prompts, memory.responses, memory.rows
    settled = all(table.tail_columns is None for _, table in memory.files)
    columns = [
        _settled(responses, "number"),
        _settled(rows, "number"),
        _settled(prompts, "order"),
        _settled(responses, "tokens"),
        memory.tally.used if settled else array("I"),
        _settled(responses, "line"),
        _settled(responses, "offset"),
        _settled(responses, "finish"),
        _settled(responses, "code"),
    ]
    return {
        "files": [watched.to_json() for watched, _ in memory.files],
        "tables": [table.to_json() for _, table in memory.files],
        # With an unfinished line in it the judging is not worth keeping: it takes milliseconds.
        "tally": memory.tally.to_json() if settled else None,
        "had_prompts": memory.judged_on is not None and memory.judged_on[1] is not None,
        "arrays": base64.b64encode(pack(memory.ids.names, columns)).decode(),
    }


def _settled(table: LineTable, name: str) -> array[int]:
    column: array[int] = getattr(table, name)
    return column if table.tail_columns is None else column[: table.tail_columns[name]]


def _restored(memory: DatasetMemory, state: dict[str, Any]) -> DatasetMemory:
    for place, (watched, table) in enumerate(memory.files):
        if state["files"][place] is not None:
            watched.restore(state["files"][place])
            table.restore(state["tables"][place])
    if state["tally"] is not None:
        memory.tally.restore(state["tally"])
        memory.judged_on = (memory.responses.epoch, memory.prompts.epoch if state["had_prompts"] else None)
    memory.packed = partial(_unpack_into, memory, state["arrays"])
    memory.packed_state = state
    return memory


def _unpack_into(memory: DatasetMemory, text: str) -> None:
    names, columns = unpack(base64.b64decode(text))
    prompts, responses, rows, tally = memory.prompts, memory.responses, memory.rows, memory.tally
    number, row_number, order, tokens, used, line, offset, finish, code = columns
    lengths = {len(column) for column in (number, tokens, line, offset, finish, code)}
    if (
        lengths != {responses.lines - responses.unusable}
        or len(order) != prompts.usable
        or len(row_number) != rows.good
    ):
        raise ValueError("the arrays do not fit the counts")
    memory.ids.fill(names)
    responses.number, responses.tokens, responses.line = number, tokens, line
    responses.offset, responses.finish, responses.code = offset, finish, code
    prompts.order, rows.number, tally.used = order, row_number, used
    prompts.remark()
    rows.remark()
    tally.resee(responses)
