"""Append whole lines to a small state file of the run, one write each."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def append_line(path: Path, value: Mapping[str, Any], durable: bool = True) -> None:
    """Append one JSON line; `durable` also syncs it to the disk. Raises OSError.

    A last line that a crash left without its newline gets one first, so that the two are not glued together.
    """
    line = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        end = os.fstat(fd).st_size
        if end and os.pread(fd, 1, end - 1) != b"\n":
            line = b"\n" + line
        written = os.write(fd, line)
        if written != len(line):
            raise OSError(f"only {written} of {len(line)} bytes were written to {path}")
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects of such a file; lines that are none are passed over. Raises OSError, not for a missing file."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for line in file:
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                yield value
