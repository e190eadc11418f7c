"""Plain number arrays and names in few bytes, for the index."""

from __future__ import annotations

import json
import zlib
from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any

Column = tuple[str, bool]
COLUMNS: tuple[Column, ...] = (
    ("I", False),  # responses: number
    ("I", False),  # rows: number, in nearly the same order, hence beside it
    ("I", True),  # prompts: order
    ("I", False),  # responses: tokens
    ("I", True),  # used
    ("I", True),  # responses: line
    ("Q", True),  # responses: offset
    ("B", False),  # responses: finish
    ("B", False),  # responses: code
)
"""Type code of each array, and whether the steps between its values are smaller than the values."""

BAD_PACK = (
    ValueError,
    KeyError,
    TypeError,
    IndexError,
    AttributeError,
    OverflowError,
    RecursionError,
    EOFError,
    zlib.error,
)
"""What reading something that only looks like an index may raise."""


def pack(names: list[str], columns: Sequence[array[int]]) -> bytes:
    """Names and one array for each of COLUMNS. `unpack` is the inverse."""
    text = json.dumps(names, separators=(",", ":")).encode()
    head = json.dumps({"names_bytes": len(text), "lengths": [len(column) for column in columns]}).encode()
    raws = [
        (_steps(column) if stepped else column).tobytes() for column, (_, stepped) in zip(columns, COLUMNS, strict=True)
    ]
    planes = [
        raw[plane :: column.itemsize]
        for plane in range(8)
        for raw, column in zip(raws, columns, strict=True)
        if plane < column.itemsize
    ]
    return zlib.compress(b"".join([head, b"\n", text, *planes]), 6)


def unpack(data: bytes) -> tuple[list[str], list[array[int]]]:
    """What `pack` was given. Raises one of BAD_PACK on anything else."""
    head, _, rest = zlib.decompress(data).partition(b"\n")
    sizes: dict[str, Any] = json.loads(head)
    names = json.loads(rest[: sizes["names_bytes"]])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("names are not text")
    columns = [array(code) for code, _ in COLUMNS]
    raws = [bytearray(length * column.itemsize) for length, column in zip(sizes["lengths"], columns, strict=True)]
    at = sizes["names_bytes"]
    for plane in range(8):
        for raw, column in zip(raws, columns, strict=True):
            if plane < column.itemsize:
                length = len(raw) // column.itemsize
                raw[plane :: column.itemsize] = rest[at : at + length]
                at += length
    for place, (code, stepped) in enumerate(COLUMNS):
        columns[place].frombytes(bytes(raws[place]))
        if stepped:
            columns[place] = array(code, accumulate(columns[place], _adder(columns[place].itemsize)))
    return names, columns


def _steps(column: array[int]) -> array[int]:
    mask = (1 << 8 * column.itemsize) - 1
    before: Iterable[int] = [0, *column[:-1]]
    return array(column.typecode, ((value - last) & mask for value, last in zip(column, before, strict=False)))


def _adder(itemsize: int) -> Callable[[int, int], int]:
    mask = (1 << 8 * itemsize) - 1
    return lambda total, step: (total + step) & mask
