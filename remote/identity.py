"""Which process is meant: a pid alone is reused, so it is never what a signal is aimed at.

An identity is the pid, the tick it started at, the boot and the pid namespace. A process that
differs in any of them is somebody else's and is never signalled; a zombie counts as dead.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from remote import procfs


@dataclass(frozen=True)
class Identity:
    """One process, for as long as the machine is up. `start_ticks` is field 22 of `/proc/PID/stat`."""

    pid: int
    start_ticks: int
    boot_id: str
    pid_ns: str

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` is its inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: object) -> Identity | None:
        """The identity that `to_json` wrote, or None when the value is none."""
        if not isinstance(value, Mapping):
            return None
        pid, ticks = value.get("pid"), value.get("start_ticks")
        boot, space = value.get("boot_id"), value.get("pid_ns")
        if not isinstance(pid, int) or isinstance(pid, bool) or pid < 1:
            return None
        if not isinstance(ticks, int) or isinstance(ticks, bool):
            return None
        if not isinstance(boot, str) or not isinstance(space, str):
            return None
        return cls(pid, ticks, boot, space)


def identify(pid: int) -> Identity | None:
    """The identity of a living process as seen from here, or None when there is none (zombies included)."""
    stat = procfs.read_stat(pid)
    return None if stat is None or stat.dead else of_stat(stat)


def of_stat(stat: procfs.Stat) -> Identity:
    """The identity of a process already read."""
    return Identity(stat.pid, stat.start_ticks, procfs.boot_id(), procfs.pid_namespace())


def myself() -> Identity:
    """The identity of the calling process. Raises RuntimeError where there is no `/proc`."""
    found = identify(os.getpid())
    if found is None:
        raise RuntimeError("/proc shows no processes here")
    return found


def same_world(identity: Identity) -> bool:
    """Whether an identity was taken in this boot and this pid namespace: else its pid means nothing here."""
    return identity.boot_id == procfs.boot_id() and identity.pid_ns == procfs.pid_namespace()


def alive(identity: Identity | None) -> bool:
    """Whether exactly this process still runs."""
    return identity is not None and same_world(identity) and _runs(identity)


def _runs(identity: Identity) -> bool:
    stat = procfs.read_stat(identity.pid)
    return stat is not None and not stat.dead and stat.start_ticks == identity.start_ticks


def send(identity: Identity, number: int) -> bool:
    """Signal exactly this process. False when it is gone, or when its pid is another process's now.

    A pidfd is opened first and the identity compared after: the descriptor cannot come to mean
    another process, so there is no moment in which a reused pid is hit. Where the kernel has no
    pidfd (before Linux 5.3) the comparison directly precedes the signal. Raises PermissionError
    when the process is another user's.
    """
    if not same_world(identity):
        return False
    handle = _pidfd(identity.pid)
    try:
        if not _runs(identity):
            return False
        if handle is None:
            os.kill(identity.pid, number)
        else:
            signal.pidfd_send_signal(handle, number)
        return True
    except ProcessLookupError:
        return False
    finally:
        if handle is not None:
            os.close(handle)


def wait_gone(identities: Iterable[Identity], timeout_s: float) -> list[Identity]:
    """Wait until all of these processes are dead, at most `timeout_s`; returns those that are not."""
    deadline = time.monotonic() + timeout_s
    left = [identity for identity in identities if alive(identity)]
    while left:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            break
        handle = _pidfd(left[0].pid)
        if handle is None:
            time.sleep(min(0.05, remaining))
        else:
            try:
                if _runs(left[0]):
                    poller = select.poll()
                    poller.register(handle, select.POLLIN)
                    poller.poll(remaining * 1000)
            finally:
                os.close(handle)
        left = [identity for identity in left if alive(identity)]
    return left


def _pidfd(pid: int) -> int | None:
    opener: Callable[[int], int] | None = getattr(os, "pidfd_open", None)
    if opener is None or not hasattr(signal, "pidfd_send_signal"):
        return None
    try:
        return opener(pid)
    except OSError:
        # ENOSYS under old kernels and some sandboxes, ESRCH when it is gone: the caller compares anyway.
        return None
