"""The last line of a file that we are about to append to: whole, without its newline, or torn.

Nothing is thrown away. A torn line is copied to the side with its offset, the copy is made
durable, and only then is the file cut; when the copy fails, the file is not touched.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.jsonlines import MAX_LINE_BYTES, is_complete_object
from remote.layout import fsync_folder
from remote.text import clean

_STEP_BYTES = 1 << 16


@dataclass(frozen=True)
class TailRepair:
    """What was done to a file's end: `clean` (nothing), `newline` (a whole last record got its
    newline) or `cut` (`size_bytes` from `offset` on were moved to `saved`)."""

    kind: str
    path: Path
    offset: int = 0
    size_bytes: int = 0
    saved: Path | None = None

    def __str__(self) -> str:
        name = clean(f"{self.path.parent.name}/{self.path.name}")
        if self.kind == "cut":
            return f"{name} ended in half a line: its last {self.size_bytes:,} bytes were moved to {clean(self.saved)}"
        if self.kind == "newline":
            return f"{name} ended in a whole record without newline: it got one"
        return f"{name} ends with a whole line"


def repair_tail(fd: int, path: Path, torn_folder: Path) -> TailRepair:
    """Make the file end in a newline, so that the next record is not glued to the last one.

    `fd` is open for reading and appending, and locked by the caller. `torn_folder` is made
    when it is needed. Raises OperatorError (`torn-tail`) when the torn bytes cannot be
    saved or the file cannot be changed; the file then is as it was.
    """
    try:
        size = os.fstat(fd).st_size
        start = _end_of_last_line(fd, size)
        if start == size:
            return TailRepair("clean", path)
        length = size - start
        if length <= MAX_LINE_BYTES and is_complete_object(os.pread(fd, length, start)):
            if os.write(fd, b"\n") != 1:
                raise OSError("short write")
            os.fsync(fd)
            return TailRepair("newline", path, start, length)
        saved = _copy_aside(fd, start, size, path, torn_folder)
        if os.fstat(fd).st_size != size:
            raise OperatorError(
                "second-writer",
                f"{clean(path)} grew while its last line was looked at: somebody else writes it",
                "find the other writer first (the console lists it)",
            )
        os.ftruncate(fd, start)
        os.fsync(fd)
        return TailRepair("cut", path, start, length, saved)
    except OSError as error:
        raise OperatorError(
            "torn-tail",
            f"{clean(path)} ends in half a line that could not be set aside: {error.strerror or error}",
            "nothing was changed; free space or make the folder writable, then start again",
            ExitCode.DISK,
        ) from error


def _end_of_last_line(fd: int, size: int) -> int:
    """The offset behind the last newline; 0 when there is none."""
    end = size
    while end > 0:
        start = max(0, end - _STEP_BYTES)
        found = os.pread(fd, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _copy_aside(fd: int, start: int, end: int, path: Path, torn_folder: Path) -> Path:
    if not torn_folder.is_dir():
        torn_folder.mkdir(parents=True, exist_ok=True)
        fsync_folder(torn_folder.parent)
    saved = torn_folder / f"{path.parent.name}.{path.name}.torn-{start}-{time.time_ns()}"
    copy = os.open(saved, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        at = start
        while at < end:
            piece = os.pread(fd, min(_STEP_BYTES, end - at), at)
            if not piece:
                raise OSError("the file shrank while it was read")
            view = memoryview(piece)
            while view:
                view = view[os.write(copy, view) :]
            at += len(piece)
        os.fsync(copy)
    except BaseException:
        saved.unlink(missing_ok=True)
        raise
    finally:
        os.close(copy)
    fsync_folder(torn_folder)
    return saved
