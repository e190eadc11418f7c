"""One file that others write: what was read of it is remembered, and only what is new is read.

A file is trusted by its identity (device, inode, size, mtime, ctime), by digests of its two
ends when it grew, and by a checksum of every block when anything else about it changed. A
changed size costs the new bytes and at most 8 KiB; an unchanged file costs its `stat`.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from enum import Enum
from typing import Any, NamedTuple, Protocol

from remote.checksums import BLOCK_BYTES, BlockChecksums
from remote.jsonlines import CHUNK_BYTES, LineSplitter

END_BYTES = 4096
TAIL_KEPT_BYTES = 1 << 20
"""An unfinished last line up to this size is kept in memory, so that it is not read again when it grows."""

TICK_NS = 20_000_000
"""File times move in ticks of the kernel's clock (4 to 10 ms). A file that was looked at within
a tick of its last change may change again without its times showing it."""

COARSE_TICK_NS = 1_000_000_000
"""The tick of file systems that keep whole seconds."""

RACY_VERIFY_BYTES = 8 << 20
"""How much of such a file is compared again at once; the background pass sees to the rest."""


class Stamp(NamedTuple):
    """What `stat` tells of a file's identity and content."""

    dev: int
    ino: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        """The stamp of one `stat`."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class Change(Enum):
    """What a look at the file found."""

    SAME = "same"
    TOUCHED = "touched"
    """Other times, the same content."""
    GREW = "grew"
    REREAD = "reread"
    GONE = "gone"
    UNREADABLE = "unreadable"


class Reader(Protocol):
    """Who takes the lines in."""

    def clear(self) -> None:
        """Forget everything: the file is read again from its start."""

    def take(self, offset: int, line: bytes) -> None:
        """One complete line, without its newline."""

    def set_tail(self, offset: int, tail: bytes) -> None:
        """The bytes after the last newline, perhaps none; replaces what was said before."""


class WatchedFile:
    """The memory of one file. `refresh` brings `reader` up to date with it.

    `offset` is the end of the last complete line taken in; `tail_bytes` of an unfinished
    line follow it. `reason` says why the file cannot be read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.bytes_read = 0
        self.present = False
        self.reason: str | None = None
        self.stamp: Stamp | None = None
        self.due = False
        """Look again even though its stamp is unchanged."""
        self.verify_at = 0
        self._racy = False
        self._forget()

    def _forget(self) -> None:
        self.offset = 0
        self.tail_bytes = 0
        self._tail = b""
        self._sums = BlockChecksums()
        self._head = b""
        self._end = b""
        self._head_digest: bytes | None = None
        self._end_digest: bytes | None = None

    def is_unchanged(self, status: os.stat_result) -> bool:
        """Whether this `stat` is the one that the memory stands on."""
        stamp = self.stamp
        return (
            stamp is not None
            and stamp.ctime_ns == status.st_ctime_ns
            and stamp.size == status.st_size
            and stamp.mtime_ns == status.st_mtime_ns
            and stamp.ino == status.st_ino
            and stamp.dev == status.st_dev
        )

    def mark_gone(self) -> Change:
        """The file is not there. Its memory stays: it may come back as it was."""
        was = self.present or self.reason is not None
        self.present, self.reason = False, None
        return Change.GONE if was else Change.SAME

    def mark_unreadable(self, error: OSError) -> Change:
        """The file is there and cannot be read; looked at again next time."""
        reason = error.strerror or str(error)
        was = self.present and self.reason == reason
        self.present, self.reason, self.stamp = True, reason, None
        return Change.SAME if was else Change.UNREADABLE

    def refresh(self, reader: Reader) -> Change:
        """Read what is new. An OSError makes the file unreadable, not the caller fail."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            return self.mark_gone()
        except OSError as error:
            return self.mark_unreadable(error)
        try:
            now_ns = time.time_ns()
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                kind = errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.EINVAL
                return self.mark_unreadable(OSError(kind, "not a regular file"))
            return self._bring_up(fd, Stamp.of(status), now_ns, reader)
        except OSError as error:
            self._forget()
            reader.clear()
            return self.mark_unreadable(error)
        finally:
            os.close(fd)

    def verify_old(self, max_bytes: int) -> bool:
        """Compare up to `max_bytes` (whole blocks, at least one) of what was read long ago with its
        checksums, going on where the last call stopped. False when they differ: `distrust` the file
        then. Raises OSError."""
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            stop = min(self.offset, self.verify_at + max(1, max_bytes // BLOCK_BYTES) * BLOCK_BYTES)
            same = self._blocks_match(fd, self.verify_at, stop)
            self.verify_at = 0 if stop >= self.offset else stop
            return same
        finally:
            os.close(fd)

    def distrust(self) -> None:
        """Make the next `refresh` read everything again."""
        self._forget()
        self.stamp = None

    # ---- reading

    def _bring_up(self, fd: int, stamp: Stamp, now_ns: int, reader: Reader) -> Change:
        before, was_there = self.stamp, self.present and self.reason is None
        known = self.offset + self.tail_bytes
        trusted = before is not None and self._still_ours(fd, before, stamp)
        if not trusted:
            self._forget()
            self.verify_at = 0
            reader.clear()
        taken = not trusted or stamp.size != known or stamp.size != self.offset + len(self._tail)
        if taken:
            self._take_in(fd, stamp.size, reader)
        self.present, self.reason, self.stamp = True, None, stamp
        self.due = self._racy = is_racy(stamp.ctime_ns, now_ns)
        if not trusted or not was_there:
            return Change.REREAD
        if before is not None and stamp.size > before.size:
            return Change.GREW
        if taken:
            return Change.REREAD
        return Change.SAME if stamp == before else Change.TOUCHED

    def _still_ours(self, fd: int, before: Stamp, now: Stamp) -> bool:
        """Whether the file still begins with the bytes that were taken in."""
        if now.size < self.offset:
            return False
        same_file = (before.dev, before.ino) == (now.dev, now.ino)
        if before == now and not self._racy:
            return True
        if same_file and before.size != now.size:
            return self._ends_match(fd, now.size)
        racy_only = before == now and self.offset > RACY_VERIFY_BYTES
        start = (self.offset - RACY_VERIFY_BYTES) // BLOCK_BYTES * BLOCK_BYTES if racy_only else 0
        self._drop_tail()
        return self._blocks_match(fd, start, self.offset)

    def _ends_match(self, fd: int, size: int) -> bool:
        """The cheap look at a file that grew or lost its torn tail: its first and last bytes."""
        head_length = min(END_BYTES, self.offset)
        head = self._read(fd, 0, head_length)
        if self._head_digest is None or _digest(head) != self._head_digest:
            return False
        self._head = head
        end_length = min(END_BYTES, self.offset)
        if self._end_digest is not None and len(self._end) != end_length:
            self._end = head if end_length == self.offset else self._read(fd, self.offset - end_length, end_length)
            self._drop_tail()
            return _digest(self._end) == self._end_digest
        expected = (self._end + self._tail)[-END_BYTES:]
        seen = self.offset + len(self._tail)
        if size >= seen:
            if not self._tail and end_length == self.offset:
                return True
            if self._read(fd, seen - len(expected), len(expected)) == expected:
                return True
        if not self._tail:
            return False
        self._drop_tail()
        return self._read(fd, self.offset - end_length, end_length) == self._end

    def _blocks_match(self, fd: int, start: int, stop: int) -> bool:
        for at in range(start, stop, BLOCK_BYTES):
            length = min(BLOCK_BYTES, self.offset - at)
            data = self._read(fd, at, length)
            if len(data) != length or not self._sums.fits(at, data):
                return False
        return True

    def _take_in(self, fd: int, size: int, reader: Reader) -> None:
        """Read from the last complete line on, up to `size`, and hand the lines over."""
        splitter = LineSplitter(self.offset)
        sums = self._sums
        committed = sums.mark()
        end_length = min(END_BYTES, self.offset)
        if len(self._end) != end_length:
            self._end = self._read(fd, self.offset - end_length, end_length)
        recent = end = self._end
        chunk, at = self._tail, self.offset
        if not chunk:
            chunk = self._read(fd, at, min(CHUNK_BYTES, size - at))
        while chunk:
            at += len(chunk)
            cut = chunk.rfind(b"\n") + 1
            if cut:
                view = memoryview(chunk)
                sums.update(view[:cut])
                committed = sums.mark()
                end = (recent + chunk[max(0, cut - END_BYTES) : cut])[-END_BYTES:]
                sums.update(view[cut:])
            else:
                sums.update(chunk)
            recent = (recent + chunk[-END_BYTES:])[-END_BYTES:]
            for offset, line in splitter.feed(chunk):
                reader.take(offset, line)
            chunk = self._read(fd, at, min(CHUNK_BYTES, size - at))
        sums.rewind(committed)
        self.offset = splitter.offset
        self.tail_bytes = splitter.rest_bytes
        tail = splitter.rest()
        self._tail = tail if self.tail_bytes <= TAIL_KEPT_BYTES else b""
        self._end, self._end_digest = end, _digest(end)
        self._remember_head(fd)
        reader.set_tail(self.offset, tail)

    def _remember_head(self, fd: int) -> None:
        length = min(END_BYTES, self.offset)
        if len(self._head) < length:
            self._head = self._end if length == self.offset else self._read(fd, 0, length)
        self._head_digest = _digest(self._head)

    def _drop_tail(self) -> None:
        """Read the unfinished line again next time, and before then count it as unknown."""
        self._tail = b""
        self.tail_bytes = 0

    def _read(self, fd: int, at: int, length: int) -> bytes:
        data = os.pread(fd, length, at) if length > 0 else b""
        self.bytes_read += len(data)
        return data

    # ---- the index

    def to_json(self) -> dict[str, Any] | None:
        """What the index keeps, up to the last complete line; None when there is nothing to keep."""
        if self.stamp is None or self._head_digest is None or self._end_digest is None:
            return None
        return {
            "stamp": list(self.stamp),
            "present": self.present,
            "racy": self._racy,
            "offset": self.offset,
            "blocks": self._sums.to_json(),
            "head": self._head_digest.hex(),
            "end": self._end_digest.hex(),
        }

    def restore(self, value: dict[str, Any]) -> None:
        """Take over what `to_json` kept. Raises ValueError, KeyError or TypeError when it is not that."""
        self.stamp = Stamp(*(int(number) for number in value["stamp"]))
        self.present = bool(value["present"])
        self._racy = bool(value["racy"])
        self.offset = int(value["offset"])
        self._sums = BlockChecksums.from_json(value["blocks"], self.offset)
        self._head_digest = bytes.fromhex(value["head"])
        self._end_digest = bytes.fromhex(value["end"])
        self.due = self._racy or self.stamp.size > self.offset


def is_racy(ctime_ns: int, now_ns: int) -> bool:
    """Whether a file that changed at `ctime_ns` may change once more without its time showing it.

    A time far ahead is no such case: the clock was set back, and the next change will have another time.
    """
    tick_ns = COARSE_TICK_NS if ctime_ns % COARSE_TICK_NS == 0 else TICK_NS
    return abs(now_ns - ctime_ns) < tick_ns


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
