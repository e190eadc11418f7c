"""Strict JSON and lines: what counts as one JSON value, and where one line ends.

Every reader of our files goes through here, so that the scan, the run and the tokenizing
agree on each byte. Lines end at `\\n` alone (never at U+2028 or a lone CR); a byte order
mark, blanks and a CR around the value are skipped.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator
from typing import Any, NoReturn

MAX_LINE_BYTES = 8 << 20
"""A longer line is no record of ours (the longest context gives about 3 MB) and is not held in memory."""

MAX_DEPTH = 200
"""Nesting beyond this is refused, at the same depth on every Python: their own limits differ."""

CHUNK_BYTES = 1 << 20

BOM = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n"
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


class BadJson(ValueError):
    """The line is not one strict JSON value. `code` is stable, `message` says it in words."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def is_blank(line: bytes) -> bool:
    """Whether a line holds nothing but blanks, CR and a byte order mark."""
    return not line.removeprefix(BOM).strip(_BLANKS)


def strict_loads(line: bytes) -> Any:
    """The one JSON value of a line. Raises BadJson.

    Stricter than `json.loads`, which takes NaN, infinities (`1e999` too), repeated keys,
    lone surrogates, other encodings, and nesting up to what the interpreter bears.
    """
    if len(line) > MAX_LINE_BYTES:
        raise BadJson("line-too-long", f"longer than {MAX_LINE_BYTES >> 20} MiB")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadJson("bad-utf8", f"not UTF-8 at byte {error.start}") from None
    try:
        value = _DECODER.decode(text[1:] if text.startswith("\ufeff") else text)
    except BadJson:
        raise
    except RecursionError:
        raise BadJson("too-deep", "nested too deeply") from None
    except ValueError as error:
        raise BadJson("bad-json", f"not JSON: {error}") from None
    # Each of these three looks is a memchr over the line: next to nothing beside the parse.
    if len(line.split(b"[", MAX_DEPTH)) + len(line.split(b"{", MAX_DEPTH)) > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise BadJson("too-deep", f"nested deeper than {MAX_DEPTH}")
    if b"\\" in line and _SURROGATE_ESCAPE.search(line):
        _refuse_lone_surrogates(value)
    return value


def is_complete_object(line: bytes) -> bool:
    """Whether bytes without a newline are a whole record all the same, not a torn one."""
    try:
        return isinstance(strict_loads(line), dict)
    except BadJson:
        return False


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise BadJson("repeated-key", f"the key {twice!r} comes more than once")
    return value


def _constant(name: str) -> NoReturn:
    raise BadJson("not-finite", f"{name} is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise BadJson("not-finite", f"{text[:20]} is beyond what a number holds")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_float)


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level:
        level = [item for item in level if isinstance(item, (dict, list))]
        if not level:
            break
        depth += 1
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return depth


def _refuse_lone_surrogates(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise BadJson("lone-surrogate", "half of a surrogate pair: no such character") from None


class LineSplitter:
    """Cuts a stream of chunks into lines without ever holding more than one line.

    `offset` is the byte offset of the first byte that is not part of a complete line yet.
    Of a line longer than MAX_LINE_BYTES only the start is kept (it is refused anyway); its
    true length still counts in the offsets.
    """

    def __init__(self, offset: int = 0) -> None:
        self.offset = offset
        self._held: list[bytes] = []
        self._kept_bytes = 0
        self._true_bytes = 0

    def feed(self, chunk: bytes) -> list[tuple[int, bytes]]:
        """The lines that this chunk completes, each as (offset, bytes without the newline)."""
        first, *others = chunk.split(b"\n")
        self._hold(first)
        if not others:
            return []
        lines = [(self.offset, self.rest())]
        offset = self.offset + self._true_bytes + 1
        last = others.pop()
        for line in others:
            lines.append((offset, line))
            offset += len(line) + 1
        self.offset = offset
        self._held, self._kept_bytes, self._true_bytes = [], 0, 0
        self._hold(last)
        return lines

    def rest(self) -> bytes:
        """The bytes after the last newline so far."""
        if len(self._held) > 1:
            self._held = [b"".join(self._held)]
        return self._held[0] if self._held else b""

    @property
    def rest_bytes(self) -> int:
        """The true length of what `rest` gives the start of."""
        return self._true_bytes

    def _hold(self, piece: bytes) -> None:
        self._true_bytes += len(piece)
        room = MAX_LINE_BYTES + 1 - self._kept_bytes
        if piece and room > 0:
            self._held.append(piece[:room])
            self._kept_bytes += min(len(piece), room)


def lines(fd: int, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
    """The lines of an open file from byte `start` up to `end` (its present end when not given).

    Yields (offset, line without its newline), blank lines included; the last one may lack
    its newline in the file. Reads with `pread` and leaves the file position alone. Raises OSError.
    """
    if end is None:
        end = os.fstat(fd).st_size
    splitter = LineSplitter(start)
    at = start
    while at < end:
        chunk = os.pread(fd, min(CHUNK_BYTES, end - at), at)
        if not chunk:
            break
        at += len(chunk)
        yield from splitter.feed(chunk)
    if splitter.rest_bytes:
        yield splitter.offset, splitter.rest()
