"""The container itself: GPUs, disk, memory, and how often its kernel killed for want of memory.

What cannot be read is None with a reason, never 0.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

from remote import procfs
from remote.gpus import gpus
from remote.text import clean

CGROUP = Path("/sys/fs/cgroup")


def disk(path: Path) -> dict[str, Any]:
    """`{"free_bytes", "total_bytes", "free_inodes"}` of the file system that holds `path`.

    Free is what this user may still write. A file system that counts no inodes has None.
    """
    try:
        found = os.statvfs(path)
    except OSError as error:
        return {
            "free_bytes": None,
            "total_bytes": None,
            "free_inodes": None,
            "detail": f"{clean(str(path), 200)}: {error.strerror}",
        }
    return {
        "free_bytes": found.f_bavail * found.f_frsize,
        "total_bytes": found.f_blocks * found.f_frsize,
        "free_inodes": found.f_favail if found.f_files else None,
    }


def machine() -> dict[str, Any]:
    """`{"hostname", "boot_id", "cpus", "memory_total_bytes", "memory_available_bytes"}`.

    CPUs are those that this process may run on; memory is the cgroup's where that is the smaller.
    """
    total, available = _meminfo()
    limit, used = _cgroup_memory()
    if limit is not None and (total is None or limit < total):
        total = limit
        if used is not None:
            left = max(0, limit - used)
            available = left if available is None else min(available, left)
    return {
        "hostname": clean(socket.gethostname(), 100),
        "boot_id": procfs.boot_id() or None,
        "cpus": len(os.sched_getaffinity(0)),
        "memory_total_bytes": total,
        "memory_available_bytes": available,
    }


def oom_kills(pid: int | str = "self") -> int | None:
    """How often the kernel has killed a process of this cgroup for want of memory; None when it does not say.

    cgroup v2 `memory.events` or v1 `memory.oom_control`, key `oom_kill`.
    """
    for folder in _memory_cgroups(pid):
        for name in ("memory.events.local", "memory.events", "memory.oom_control"):
            found = _keyed(folder / name).get("oom_kill")
            if found is not None:
                return found
    return None


def _memory_cgroups(pid: int | str) -> list[Path]:
    """Folders that may hold the memory controller's files of a process, the likeliest first."""
    try:
        lines = (procfs.PROC / str(pid) / "cgroup").read_text().splitlines()
    except OSError:
        lines = []
    found: list[Path] = []
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers == "":
            found.append(CGROUP / path.lstrip("/"))
            found.append(CGROUP / "unified" / path.lstrip("/"))
        elif "memory" in controllers.split(","):
            found.insert(0, CGROUP / "memory" / path.lstrip("/"))
    # Inside a container the path is often the host's while the mount shows the container's own folder.
    return [*found, CGROUP / "memory", CGROUP]


def _keyed(path: Path) -> dict[str, int]:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.split() for line in lines)
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def _meminfo() -> tuple[int | None, int | None]:
    try:
        lines = (procfs.PROC / "meminfo").read_text().splitlines()
    except OSError:
        return None, None
    fields = {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}

    def in_bytes(name: str) -> int | None:
        words = fields.get(name) or [""]
        return int(words[0]) * 1024 if words[0].isdecimal() else None

    return in_bytes("MemTotal"), in_bytes("MemAvailable")


def _cgroup_memory() -> tuple[int | None, int | None]:
    for folder in _memory_cgroups("self"):
        for limit_name, used_name in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            limit = _number(folder / limit_name)
            if limit is not None:
                return limit, _number(folder / used_name)
    return None, None


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


__all__ = ["disk", "gpus", "machine", "oom_kills"]
