"""Small logs of JSON lines that several processes append to and anybody reads: audit and history.

One `write` of one whole line on an O_APPEND descriptor under a `flock`, so that lines never mix;
a torn or damaged line is skipped by readers and never repaired.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_BLOCK = 1 << 16
_MAX_LINE_BYTES = 8 << 20


def append_line(path: Path, value: Mapping[str, Any], durable: bool = True) -> None:
    """Append one object as a line; starts a new line first when the last one was torn. Raises OSError."""
    line = json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        # On a file system without locks O_APPEND alone still keeps one write in one piece.
        with contextlib.suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX)
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            line = b"\n" + line
        written = os.write(fd, line)
        if written != len(line):
            # The disk is full in the middle of our own line: take back what nobody was told of.
            os.ftruncate(fd, size)
            raise OSError(28, os.strerror(28), str(path))
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)


def read_backwards(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a log, the newest first; lines that are no objects are skipped. No file is an empty one.

    Reads from the end in blocks, so that the last few of a long log cost little. Raises OSError.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        end = os.fstat(fd).st_size
        rest = b""
        while end > 0:
            start = max(0, end - _BLOCK)
            parts = (os.pread(fd, end - start, start) + rest).split(b"\n")
            rest = parts[0] if len(parts[0]) <= _MAX_LINE_BYTES else b""
            for part in reversed(parts[1:]):
                value = _object(part)
                if value is not None:
                    yield value
            end = start
        value = _object(rest)
        if value is not None:
            yield value
    finally:
        os.close(fd)


def read_forwards(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a log, the oldest first; lines that are no objects are skipped. No file is an empty one.

    Raises OSError.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for line in file:
            value = _object(line)
            if value is not None:
                yield value


def _object(line: bytes) -> dict[str, Any] | None:
    if not line.strip():
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
