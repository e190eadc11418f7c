"""Pages of `run.log`, by byte offset: its end, what comes before and after a page, and a search.

Reads a bounded piece at a time whatever the file's size; what it returns is cleaned. The log is
rotated by renaming, so a size smaller than an offset means that a new file has begun.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remote.errors import OperatorError
from remote.text import clean

MAX_PAGE_BYTES = 1 << 20
PAGE_BYTES = 64 << 10
LINE_LIMIT = 2000
"""Characters of one line that are shown."""

SETTLED_S = 2.0
"""A last line without its newline that nobody has added to for so long is the last thing that a process said."""

SEARCH_PIECE_BYTES = 256 << 10
SEARCH_LIMIT_BYTES = 64 << 20
SEARCH_LIMIT_S = 3.0
MAX_MATCHES = 1000


@dataclass(frozen=True)
class Page:
    """Whole lines `[start, end)` of a log of `size` bytes; `offsets` says where each line begins."""

    start: int
    end: int
    size: int
    lines: tuple[str, ...]
    offsets: tuple[int, ...]
    truncated: bool = False
    """A search ended at its limit, or a line was longer than a page."""

    def to_json(self) -> dict[str, Any]:
        """As the `log` method answers."""
        return {
            "start": self.start,
            "end": self.end,
            "size": self.size,
            "lines": list(self.lines),
            "offsets": list(self.offsets),
            "truncated": self.truncated,
        }


EMPTY = Page(0, 0, 0, (), ())


def tail(path: Path, size_bytes: int = PAGE_BYTES) -> Page:
    """The last whole lines within `size_bytes`. No file: an empty page."""
    return before(path, None, size_bytes)


def before(path: Path, end: int | None, size_bytes: int = PAGE_BYTES) -> Page:
    """The whole lines that end at or before byte `end` (None: the end of the file).

    An unfinished last line is left for later while somebody may still be writing it. Raises OperatorError `unreadable`; a file that is not there gives an empty page.
    """
    with _Log(path) as log:
        end = log.settled_end() if end is None else min(max(end, 0), log.size)
        start, data, cut = _whole_lines(log, max(0, end - _bounded(size_bytes)), end)
        return _page(data, start, log.size, cut)


def after(path: Path, start: int, size_bytes: int = PAGE_BYTES) -> Page:
    """The whole lines from byte `start` on, at most `size_bytes`; an unfinished last line as in `before`.

    A `start` beyond the end (the log was rotated) begins anew at 0. Raises OperatorError.
    """
    with _Log(path) as log:
        start = 0 if start > log.size else max(0, start)
        settled = max(start, log.settled_end())
        end = min(settled, start + _bounded(size_bytes))
        data = log.read(start, end)
        cut = False
        if end < settled:
            newline = data.rfind(b"\n")
            cut = newline < 0
            data = data if cut else data[: newline + 1]
        return _page(data, start, log.size, cut)


def search(path: Path, words: str, end: int | None = None) -> Page:
    """Lines that hold these words (case ignored), looked for from byte `end` backwards.

    Plain words and no pattern: one that backtracks for ever would hold up the whole agent. Stops
    after 1,000 matches, 64 MiB or 3 s and says so by `truncated`; `start` is then where a further
    search may go on from. Raises OperatorError when the log cannot be read.
    """
    wanted = words.casefold()
    matches: list[tuple[int, str]] = []
    deadline_s = time.monotonic() + SEARCH_LIMIT_S
    with _Log(path) as log:
        stop = log.size if end is None else min(max(end, 0), log.size)
        lowest = max(0, stop - SEARCH_LIMIT_BYTES)
        at = stop
        while at > lowest and len(matches) < MAX_MATCHES and time.monotonic() < deadline_s:
            start, data, cut = _whole_lines(log, max(lowest, at - SEARCH_PIECE_BYTES), at)
            page = _page(data, start, log.size, cut)
            found = [(o, line) for o, line in zip(page.offsets, page.lines, strict=True) if wanted in line.casefold()]
            matches = found + matches
            at = page.start
        size = log.size
    matches = matches[-MAX_MATCHES:]
    start = at if at > 0 else 0
    return Page(start, stop, size, tuple(line for _, line in matches), tuple(o for o, _ in matches), at > 0)


def _whole_lines(log: _Log, start: int, end: int) -> tuple[int, bytes, bool]:
    """Bytes from the first line that begins in `[start, end)`; a piece of a line, marked so, where none does."""
    data = log.read(start, end)
    if start == 0 or log.read(start - 1, start) == b"\n":
        return start, data, False
    newline = data.find(b"\n")
    if newline < 0 or newline + 1 >= len(data):
        # One line fills it all: without giving a piece of it, paging would never get past.
        return start, data, True
    return start + newline + 1, data[newline + 1 :], False


def _page(data: bytes, start: int, size: int, cut: bool) -> Page:
    lines: list[str] = []
    offsets: list[int] = []
    at = start
    for raw in data.split(b"\n"):
        if raw or at < start + len(data):
            lines.append(clean(raw.rstrip(b"\r"), LINE_LIMIT))
            offsets.append(at)
        at += len(raw) + 1
    return Page(start, start + len(data), size, tuple(lines), tuple(offsets), cut)


def _bounded(size_bytes: int) -> int:
    return min(max(size_bytes, 1), MAX_PAGE_BYTES)


class _Log:
    """An open log, or an empty one where there is no file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1
        self.size = 0

    def __enter__(self) -> _Log:
        try:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            self.size = os.fstat(self._fd).st_size
        except FileNotFoundError:
            return self
        except OSError as error:
            raise self._unreadable(error) from None
        return self

    def __exit__(self, *exc: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def read(self, start: int, end: int) -> bytes:
        """Bytes `[start, end)`, fewer when the file was cut meanwhile."""
        parts: list[bytes] = []
        while start < end and self._fd >= 0:
            try:
                part = os.pread(self._fd, min(end - start, 1 << 18), start)
            except OSError as error:
                raise self._unreadable(error) from None
            if not part:
                break
            parts.append(part)
            start += len(part)
        return b"".join(parts)

    def settled_end(self) -> int:
        """Where the last line ends that nobody is writing any more."""
        if self._fd < 0 or time.time() - os.fstat(self._fd).st_mtime > SETTLED_S:
            return self.size
        at = self.size
        while at > 0:
            start = max(0, at - (1 << 16))
            newline = self.read(start, at).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            at = start
        return 0

    def _unreadable(self, error: OSError) -> OperatorError:
        return OperatorError("unreadable", f"cannot read {self._path}: {error.strerror}", "check its permissions")
