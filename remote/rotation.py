"""`run.log` is rotated by size without losing a line and without asking its writers to stop.

The generator writes to a descriptor of its own, so that it outlives its supervisor. The file is
renamed and a new one is made; a writer goes on in the renamed file until it follows, once a
second, by the file's identity. Whole old files go; nothing is cut or rewritten in place.
"""

from __future__ import annotations

import os

from remote.layout import Layout

LIMIT_BYTES = 16 << 20
KEPT = 3


def open_log(layout: Layout) -> int:
    """A descriptor that appends to `run.log`. Raises OSError."""
    return os.open(layout.run_log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)


def rotate(layout: Layout, limit_bytes: int = LIMIT_BYTES) -> bool:
    """Begin a new `run.log` when the present one has reached its size. Returns whether it did; raises OSError."""
    path = layout.run_log
    try:
        if path.stat().st_size < limit_bytes:
            return False
    except FileNotFoundError:
        return False
    for number in range(KEPT - 1, 0, -1):
        older = path.with_name(f"{path.name}.{number}")
        if older.exists():
            older.replace(path.with_name(f"{path.name}.{number + 1}"))
    path.replace(path.with_name(f"{path.name}.1"))
    os.close(open_log(layout))
    return True


def follow(layout: Layout, *descriptors: int) -> bool:
    """Point descriptors (1 and 2) that write an older `run.log` to the present one. Returns whether any was moved.

    A descriptor that writes something else (a terminal, a pipe) is left alone, so that a generator
    started by hand keeps its screen.
    """
    try:
        now = os.stat(layout.run_log)
        ours = {_key(os.stat(layout.run_log.with_name(f"{layout.run_log.name}.{n}"))) for n in _numbers(layout)}
    except OSError:
        return False
    behind = [fd for fd in descriptors if _key(os.fstat(fd)) in ours and _key(os.fstat(fd)) != _key(now)]
    if not behind:
        return False
    fresh = open_log(layout)
    try:
        for fd in behind:
            os.dup2(fresh, fd)
    finally:
        os.close(fresh)
    return True


def _numbers(layout: Layout) -> list[int]:
    return [n for n in range(1, KEPT + 1) if layout.run_log.with_name(f"{layout.run_log.name}.{n}").exists()]


def _key(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
