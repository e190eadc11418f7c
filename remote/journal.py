"""Appending records so that none is lost, none is doubled, and no half line stays behind.

One `os.write` a line, on an append descriptor held under `flock`. What is *acknowledged* has
been fsynced. When the disk fails, the bytes of the line that failed are taken back, and
nothing else; the journal then refuses everything until it is opened anew. A failed fsync is
never tried again on the same descriptor: the second call may well succeed and mean nothing,
because the kernel has dropped the pages that it could not write.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from pathlib import Path

from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.layout import fsync_folder
from remote.tail import TailRepair, repair_tail
from remote.text import clean

_CANNOT_LOCK = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class Journal:
    """One file that we append to. Opening it locks it and repairs its last line (`repair` says how).

    `fsync_every_s` None means that `sync` always reaches the disk; a number of seconds means
    at most once in that time, and at `close`. `locked` is False where the file system
    cannot lock. Raises OperatorError: `file-locked`, `torn-tail`, `disk`, `second-writer`,
    `file-replaced`. Used by one thread at a time.
    """

    def __init__(self, path: Path, torn_folder: Path, fsync_every_s: float | None = None) -> None:
        self.path = path
        self.failure: OperatorError | None = None
        self._fsync_every_s = fsync_every_s
        self._synced_at = time.monotonic()
        self._dirty = False
        new = not path.exists()
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
        except OSError as error:
            raise _disk(f"{clean(path)} cannot be opened for appending", error) from error
        try:
            if not stat.S_ISREG(os.fstat(self._fd).st_mode):
                raise OSError(errno.EINVAL, "it is no regular file")
            self.locked = self._lock()
            self.repair: TailRepair = repair_tail(self._fd, path, torn_folder)
            if new:
                fsync_folder(path.parent)
            self.size = os.fstat(self._fd).st_size
        except OSError as error:
            os.close(self._fd)
            raise _disk(f"{clean(path)} cannot be made ready for appending", error) from error
        except BaseException:
            os.close(self._fd)
            raise

    def append(self, line: bytes) -> None:
        """Write one line (with its newline, no other). It is durable after the next `sync`."""
        if self.failure is not None:
            raise self.failure
        if line.count(b"\n") != 1 or not line.endswith(b"\n"):
            raise ValueError("a journal takes one line at a time")
        self._refuse_strangers()
        written = 0
        try:
            while written < len(line):  # a second round only tells why the first was short
                written += os.write(self._fd, line[written:])
        except OSError as error:
            outcome = self._take_back(written)
            self.failure = _disk(f"{clean(self.path)} cannot be written", error, outcome)
            raise self.failure from error
        self.size += written
        self._dirty = True

    def sync(self, force: bool = False) -> None:
        """Make durable what was appended, as often as the policy says (always with `force`)."""
        if self.failure is not None:
            raise self.failure
        every_s = self._fsync_every_s
        due = force or every_s is None or time.monotonic() - self._synced_at >= every_s
        if not due or not self._dirty:
            return
        self._fsync()

    def close(self) -> None:
        """Make everything durable, unlock and close. Raises OperatorError as `sync` does."""
        if self._fd < 0:
            return
        try:
            self.sync(force=True)
        finally:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rescue(self) -> None:
        """After a failed append: make durable the whole lines before it. Raises OperatorError."""
        if self._dirty:
            self._fsync()

    def _fsync(self) -> None:
        try:
            os.fsync(self._fd)
        except OSError as error:
            self._dirty = False
            self.failure = _disk(
                f"{clean(self.path)} could not be made durable",
                error,
                "its last lines may be missing after a power cut",
            )
            raise self.failure from error
        self._dirty = False
        self._synced_at = time.monotonic()

    def _lock(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OperatorError(
                "file-locked",
                f"{clean(self.path)} is locked by another process",
                "another generate or retokenize is at work on it: stop that one first",
            ) from None
        except OSError as error:
            if error.errno in _CANNOT_LOCK:
                return False
            raise
        return True

    def _refuse_strangers(self) -> None:
        """The file must still be the one under this name, and end where we left it or at a line's end."""
        try:
            mine, named = os.fstat(self._fd), os.stat(self.path)
        except FileNotFoundError:
            named = None
        except OSError as error:
            self.failure = _disk(f"{clean(self.path)} cannot be looked at", error)
            raise self.failure from error
        if named is None or (named.st_dev, named.st_ino) != (mine.st_dev, mine.st_ino):
            self.failure = OperatorError(
                "file-replaced",
                f"{clean(self.path)} was removed or replaced while we were appending to it",
                "find who did it; then start again, which resumes from the file that is there now",
            )
            raise self.failure
        if mine.st_size != self.size:
            if mine.st_size and os.pread(self._fd, 1, mine.st_size - 1) != b"\n":
                self.failure = OperatorError(
                    "second-writer",
                    f"somebody else is writing {clean(self.path)}, in the middle of a line",
                    "find the other writer (the console lists it), stop it, then start again",
                )
                raise self.failure
            self.size = mine.st_size

    def _take_back(self, written: int) -> str:
        """Cut the bytes of a line that failed, if they are certainly ours. Says what was left."""
        if not written:
            return ""
        try:
            if os.fstat(self._fd).st_size == self.size + written:
                os.ftruncate(self._fd, self.size)
                self._dirty = True
                return ""
        except OSError:
            return f"half a line ({written} bytes) is left at its end; the next start sets it aside"
        return f"half a line ({written} bytes) is left among another writer's lines"


_REMEDIES = {
    errno.ENOSPC: "free space on that disk, then start again: it resumes where it stopped",
    errno.EDQUOT: "raise the quota or free space, then start again: it resumes where it stopped",
    errno.EROFS: "the disk has become read-only: look at the kernel's log, remount it, then start again",
    errno.EFBIG: "the file may not grow further (ulimit -f, or the file system's limit): lift that, then start again",
    errno.ENOENT: "its folder is gone: mount or restore the data, then start again",
    errno.EINVAL: "put a regular file there, or nothing, then start again",
    errno.EISDIR: "put a regular file there, or nothing, then start again",
    errno.EACCES: "check its owner and permissions, then start again",
}


def _disk(what: str, error: OSError, more: str = "") -> OperatorError:
    message = f"{what}: {error.strerror or error}" + (f" ({more})" if more else "")
    remedy = _REMEDIES.get(error.errno or 0, "the disk may be failing: look at the kernel's log before starting again")
    return OperatorError("disk", message, remedy, ExitCode.DISK)
