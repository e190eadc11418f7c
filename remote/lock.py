"""One writer under a root: an exclusive `flock` on `.eagle3/run.lock`, held for the whole run.

The descriptor is inherited by the generator and by its children, so the lock is held for as long
as any of them lives, whoever of them is killed. The file's content only names the holder; the
kernel alone decides who holds it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remote import procfs
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.figures import moment
from remote.identity import Identity, alive, identify
from remote.layout import Layout
from remote.text import clean

LOCK_FD = "EAGLE3_LOCK_FD"
"""Environment variable with the number of the inherited descriptor."""

_CANNOT = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})
_RETRY_S = 0.5
"""A status look probes the lock for an instant; a second start must not lose against that."""


@dataclass(frozen=True)
class Holder:
    """Who holds the lock, as the holder wrote it: `since` in Unix seconds. `pids` are those that have it open."""

    pid: int | None
    identity: Identity | None
    purpose: str
    by: str
    since: float | None
    host: str
    pids: tuple[int, ...] = ()

    def __str__(self) -> str:
        pid = self.pid if self.identity is not None and alive(self.identity) else next(iter(self.pids), self.pid)
        who = f"pid {pid}" if pid is not None else "an unknown process"
        about = f" ({self.purpose})" if self.purpose else ""
        by = f", started by {self.by}" if self.by else ""
        host = f" on {self.host}" if self.host and self.host != socket.gethostname() else ""
        since = f" at {moment(self.since, time.time())} UTC" if self.since else ""
        return f"{who}{about}{host}{by}{since}"

    def to_json(self) -> dict[str, Any]:
        """The holder in a snapshot."""
        return {
            "pid": self.pid,
            "identity": self.identity.to_json() if self.identity else None,
            "purpose": self.purpose,
            "by": self.by,
            "since": self.since,
            "host": self.host,
            "pids": list(self.pids),
        }


class RunLock:
    """The lock while this process holds it. Closing gives up this copy alone; inheritors keep it held."""

    def __init__(self, fd: int, locked: bool = True) -> None:
        self.fd = fd
        self.locked = locked
        """False only where the file system cannot lock and that was accepted."""

    @classmethod
    def take(cls, layout: Layout, purpose: str, by: str = "", accept_unlocked: bool = False) -> RunLock:
        """Take the lock and write who holds it.

        Raises OperatorError: `lock-held` names the holder; `cannot-lock` when the file system has
        no locks (and `accept_unlocked` is not given); `not-writable` when `.eagle3` cannot be made.
        """
        try:
            layout.make_state()
            fd = os.open(layout.run_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise OperatorError(
                "not-writable",
                f"cannot open {layout.run_lock}: {error.strerror}",
                "check that the root exists and is writable",
            ) from None
        lock = cls(fd)
        try:
            lock.locked = _lock(fd, layout, accept_unlocked)
            lock.describe(purpose, by)
        except OSError as error:
            lock.release()
            raise OperatorError(
                "not-writable",
                f"cannot write {layout.run_lock}: {error.strerror}",
                "free space on the root's file system, or look at its health",
                ExitCode.DISK,
            ) from None
        except BaseException:
            lock.release()
            raise
        return lock

    @classmethod
    def inherit(cls, fd: int) -> RunLock:
        """The lock that a parent took and passed on. Raises OperatorError when `fd` is no lock file."""
        try:
            path = os.readlink(procfs.PROC / "self" / "fd" / str(fd))
        except OSError:
            path = ""
        if Path(path).name != "run.lock":
            raise OperatorError(
                "no-lock", f"{LOCK_FD}={fd} is no run.lock", "start it with launch, or without that variable"
            )
        os.set_inheritable(fd, False)
        return cls(fd)

    def describe(self, purpose: str, by: str = "") -> None:
        """Write who holds the lock, for the one who is refused. Raises OSError."""
        me = identify(os.getpid())
        about = {
            "pid": os.getpid(),
            "identity": me.to_json() if me is not None else None,
            "purpose": purpose,
            "by": by,
            "since": time.time(),
            "host": socket.gethostname(),
        }
        data = json.dumps(about).encode() + b"\n"
        os.pwrite(self.fd, data, 0)
        os.ftruncate(self.fd, len(data))

    def release(self) -> None:
        """Give up this process's copy. The lock itself is free once every inheritor is gone."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> RunLock:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


def _lock(fd: int, layout: Layout, accept_unlocked: bool) -> bool:
    deadline = time.monotonic() + _RETRY_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                if time.monotonic() < deadline and not _pids(layout):
                    time.sleep(0.02)
                    continue
                raise _held(layout) from None
            if error.errno not in _CANNOT:
                raise
        described = _described(fd)
        if described is not None and alive(described.identity):
            raise _held(layout)
        if accept_unlocked:
            return False
        raise OperatorError(
            "cannot-lock",
            f"the file system of {layout.state} cannot lock, so two writers could not be kept apart",
            "make sure that nothing else writes there, then repeat with --accept cannot-lock",
        )


def _held(layout: Layout) -> OperatorError:
    held_by = holder(layout)
    return OperatorError(
        "lock-held",
        f"{layout.root} already has a writer: {held_by or 'a process that this one cannot see'}",
        "stop it first, or wait until it ends",
    )


def is_held(layout: Layout) -> bool | None:
    """Whether anybody holds the lock; None when that cannot be told. Takes a shared lock for an instant."""
    try:
        fd = os.open(layout.run_lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError as error:
        return True if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    finally:
        os.close(fd)


def holder(layout: Layout) -> Holder | None:
    """Who holds the lock now, or None when nobody does (or nobody that can be seen)."""
    if not is_held(layout):
        return None
    found = _pids(layout)
    try:
        fd = os.open(layout.run_lock, os.O_RDONLY | os.O_CLOEXEC)
        try:
            described = _described(fd)
        finally:
            os.close(fd)
    except OSError:
        described = None
    if described is None:
        return Holder(next(iter(found), None), None, "", "", None, "", found)
    return Holder(
        described.pid, described.identity, described.purpose, described.by, described.since, described.host, found
    )


def holding_pids(layout: Layout) -> tuple[int, ...]:
    """The processes that hold the lock through a descriptor, as far as `/proc` lets us look."""
    return _pids(layout)


def _pids(layout: Layout) -> tuple[int, ...]:
    state = os.path.realpath(layout.state)
    wanted = f"{state}/run.lock"
    return tuple(
        pid
        for pid in procfs.pids()
        if any(file.path == wanted and file.flock for file in procfs.open_files(pid, state))
    )


def _described(fd: int) -> Holder | None:
    try:
        value = json.loads(os.pread(fd, 4096, 0))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    pid, since = value.get("pid"), value.get("since")
    return Holder(
        pid if isinstance(pid, int) and not isinstance(pid, bool) else None,
        Identity.from_json(value.get("identity")),
        clean(value.get("purpose") or "", 60),
        clean(value.get("by") or "", 80),
        float(since) if isinstance(since, (int, float)) and not isinstance(since, bool) else None,
        clean(value.get("host") or "", 80),
    )
