"""When the process behind a local address was started: how a restarted engine is noticed, whoever restarted it.

Linux: `/proc/net/tcp{,6}` names the inode of a listening socket, `/proc/PID/fd` who has it open.
"""

from __future__ import annotations

import os
import socket
from urllib.parse import urlsplit

from remote import procfs

_LISTEN = "0A"


def listening_since(url: str) -> float | None:
    """Unix time at which the process that listens on the URL's port began; None when it is elsewhere or unknown.

    Of several (a server that forks workers) the oldest counts.
    """
    parts = urlsplit(url)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return None
    if not _is_here(parts.hostname or ""):
        return None
    inodes = _listening_inodes(port)
    if not inodes:
        return None
    links = {f"socket:[{inode}]" for inode in inodes}
    starts = [
        started
        for stat in procfs.stats()
        if not stat.dead and _holds(stat.pid, links) and (started := procfs.started_at(stat)) is not None
    ]
    return min(starts, default=None)


def _is_here(host: str) -> bool:
    return host in ("localhost", "::1", "0.0.0.0", "::", socket.gethostname()) or host.startswith("127.")


def _listening_inodes(port: int) -> set[str]:
    found: set[str] = set()
    for name in ("tcp", "tcp6"):
        try:
            lines = (procfs.PROC / "net" / name).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if len(fields) > 9 and fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(fields[9])
    return found


def _holds(pid: int, links: set[str]) -> bool:
    folder = procfs.PROC / str(pid) / "fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return False  # another user's, or gone
    for name in names:
        try:
            if os.readlink(folder / name) in links:
                return True
        except OSError:
            continue
    return False
