"""What `/proc` says about processes: the only module that reads it by pid.

Every function answers None (or an empty value) for a process that is gone or may not be read:
a process can end between any two reads, and that is no error. Formats: proc_pid_stat(5),
proc_pid_fdinfo(5), proc_stat(5).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
MARK = "EAGLE3_RUN"
"""Environment variable that every process of a run carries, grandchildren in other sessions included."""

_DEAD = frozenset("ZXx")
_MAX_CMDLINE_BYTES = 1 << 16
_MAX_FDINFO_BYTES = 1 << 14
_MAX_ENVIRON_BYTES = 1 << 20


@dataclass(frozen=True)
class Stat:
    """The fields of `/proc/PID/stat` that identify and place a process. `start_ticks` counts since boot."""

    pid: int
    comm: str
    state: str
    ppid: int
    session: int
    start_ticks: int

    @property
    def dead(self) -> bool:
        """A zombie holds its pid but runs no more, whether or not its parent ever reaps it."""
        return self.state in _DEAD


def _read(path: str, most_bytes: int) -> bytes:
    """The first bytes of a file that tells no size. Raises OSError."""
    with open(path, "rb", buffering=0) as file:
        parts: list[bytes] = []
        while most_bytes > 0 and (part := file.read(min(most_bytes, 1 << 16))):
            parts.append(part)
            most_bytes -= len(part)
    return b"".join(parts)


def readable() -> bool:
    """Whether `/proc` is there at all; without it nothing can be said about any process."""
    return (PROC / "self" / "stat").exists()


def read_stat(pid: int) -> Stat | None:
    """One process, or None when there is none (or `/proc` hides it)."""
    try:
        raw = _read(f"{PROC}/{pid}/stat", 4096)
    except OSError:
        return None
    # The name may hold blanks and parentheses: the fields begin after the LAST one.
    left, _, right = raw.rpartition(b")")
    fields = right.split()
    try:
        state = fields[0].decode("ascii")
        if state in _DEAD and int(fields[17]) > 1:
            # The main thread has ended and others have not (a killed process is so for a moment): its files are open.
            state = "R"
        return Stat(
            pid=pid,
            comm=left.partition(b"(")[2].decode("utf-8", "replace"),
            state=state,
            ppid=int(fields[1]),
            session=int(fields[3]),
            start_ticks=int(fields[19]),
        )
    except (IndexError, ValueError):
        return None


def pids() -> list[int]:
    """Every process that `/proc` shows, in ascending order."""
    try:
        return sorted(int(name) for name in os.listdir(PROC) if name.isdecimal())
    except OSError:
        return []


def stats() -> Iterator[Stat]:
    """`read_stat` of every process, the dead ones included."""
    for pid in pids():
        stat = read_stat(pid)
        if stat is not None:
            yield stat


def read_argv(pid: int) -> list[str]:
    """The command line, empty for kernel threads, zombies and the gone; bounded, since it is outside text."""
    try:
        raw = _read(f"{PROC}/{pid}/cmdline", _MAX_CMDLINE_BYTES)
    except OSError:
        return []
    words = raw.split(b"\0")
    if words and not words[-1]:
        words.pop()
    return [word.decode("utf-8", "replace") for word in words]


def read_mark(pid: int) -> str | None:
    """The run id in the environment a process was started with: "" without one, None when unreadable."""
    return read_variable(pid, MARK)


def read_variable(pid: int, name: str) -> str | None:
    """A variable of the environment a process was started with: "" without it, None when unreadable."""
    try:
        raw = _read(f"{PROC}/{pid}/environ", _MAX_ENVIRON_BYTES)
    except OSError:
        return None
    wanted = name.encode() + b"="
    for item in raw.split(b"\0"):
        if item.startswith(wanted):
            return item[len(wanted) :].decode("utf-8", "replace")
    return ""


def read_cwd(pid: int) -> str | None:
    """The working directory, or None."""
    try:
        return os.readlink(PROC / str(pid) / "cwd")
    except OSError:
        return None


def boot_id() -> str:
    """The kernel's random id of this boot; "" when unreadable. Containers of one host share it."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def pid_namespace(pid: int | str = "self") -> str:
    """The pid namespace (`pid:[4026531836]`): a recreated container has another; "" when unreadable."""
    try:
        return os.readlink(PROC / str(pid) / "ns" / "pid")
    except OSError:
        return ""


def ticks_per_second() -> int:
    """The unit of `start_ticks`."""
    return os.sysconf("SC_CLK_TCK")


def boot_time_s() -> float | None:
    """When the machine booted, Unix seconds by its present clock (`btime`), or None."""
    try:
        for line in (PROC / "stat").read_text().splitlines():
            if line.startswith("btime "):
                return float(line.split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return None


def started_at(stat: Stat) -> float | None:
    """When a process started, Unix seconds, or None when the boot time is unreadable."""
    boot = boot_time_s()
    return None if boot is None else boot + stat.start_ticks / ticks_per_second()


@dataclass(frozen=True)
class OpenFile:
    """One descriptor: what it points to, whether it may write, and whether it holds a `flock`."""

    fd: int
    path: str
    writes: bool
    flock: bool


def open_files(pid: int, under: str) -> list[OpenFile]:
    """The descriptors of a process on files below the folder `under` (a real path without a final `/`)."""
    # Paths as text: these are the agent's hottest calls, and pathlib would double their cost.
    process = f"{PROC}/{pid}"
    found: list[OpenFile] = []
    try:
        names = os.listdir(f"{process}/fd")
    except OSError:
        return found
    for name in names:
        try:
            path = os.readlink(f"{process}/fd/{name}")
            if not path.startswith(under + "/"):
                continue
            info = _read(f"{process}/fdinfo/{name}", _MAX_FDINFO_BYTES).decode()
        except (OSError, UnicodeDecodeError):
            continue
        writes = flock = False
        for line in info.splitlines():
            if line.startswith("flags:"):
                writes = int(line.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY
            elif line.startswith("lock:") and "FLOCK" in line and "WRITE" in line:
                flock = True
        found.append(OpenFile(int(name), path, writes, flock))
    return found


def descendants(pid: int, among: list[Stat]) -> list[Stat]:
    """The children of a process, their children and so on, out of one reading of all processes."""
    children: dict[int, list[Stat]] = {}
    for stat in among:
        children.setdefault(stat.ppid, []).append(stat)
    found: list[Stat] = []
    seen = {pid}
    queue = [pid]
    while queue:
        for child in children.get(queue.pop(), []):
            if child.pid not in seen:
                seen.add(child.pid)
                found.append(child)
                queue.append(child.pid)
    return found
