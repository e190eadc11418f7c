"""Removes what earlier releases of this program left in the cache folder that we were started from.

Each upgrade of a console brings another zip of a megabyte and its compiled companion. One is removed when it bears a
name of ours, is a file of ours, was last started long ago (stage 0 sets its time at each start), and is in use by
nobody: a helper holds a lock on its zip from before its start until its end (`stage0.hold`), and what was started
before there was that lock is found by its command line. Nothing here is ever needed: a removed release is sent again.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from pathlib import Path

from remote import procfs
from remote.release import archive_path, release
from remote.stage0 import FOLDER, refusal

UNUSED_S = 30 * 86400.0
"""A release that nobody started for so long."""
LEFT_OVER_S = 86400.0
"""An arrival that was broken off: none takes so long."""

_ARCHIVE = re.compile(r"eagle3-remote-([0-9a-f]{12})(\.[\w-]+)?\.pyz")
_ARRIVAL = re.compile(r"\.arriving-\w{8}")


def remove_old_programs(now: float | None = None) -> list[str]:
    """Look through the folder we run from if it is a cache folder; the names of what was removed. Never raises."""
    try:
        archive = archive_path()
        if archive is None or archive.parent.name not in (FOLDER, f"{FOLDER}-{os.getuid()}"):
            return []
        return remove_from(archive.parent, release(), time.time() if now is None else now)
    except OSError:
        # Read-only, gone, or somebody else's by now: it is as well as it was.
        return []


def remove_from(folder: Path, own_release: str, now: float) -> list[str]:
    """The same for one folder, in which `own_release` stays. Raises OSError when it cannot be read at all."""
    uid = os.getuid()
    if refusal(str(folder), uid, stat.S_ISDIR):
        return []
    releases: dict[str, list[Path]] = {}
    removed = []
    for path in sorted(folder.iterdir()):
        named = _ARCHIVE.fullmatch(path.name)
        if named is not None:
            releases.setdefault(named[1], []).append(path)
        elif _ARRIVAL.fullmatch(path.name) and _is_old(path, uid, now - LEFT_OVER_S):
            removed += _remove(path)
    releases.pop(own_release, None)
    for name, paths in releases.items():
        if all(_is_old(path, uid, now - UNUSED_S) for path in paths) and not _is_running(name):
            removed += _remove_release(paths, uid, now - UNUSED_S)
    return removed


def _remove_release(paths: list[Path], uid: int, before: float) -> list[str]:
    """Remove a zip and its companions while nobody can begin to start from it."""
    zips = [path for path in paths if _ARCHIVE.fullmatch(path.name)[2] is None]  # type: ignore[index]
    held: list[int] = []
    try:
        for path in zips:
            held.append(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC))
            fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not all(_is_old(path, uid, before) for path in paths):
            return []  # it was started from while we came to the lock, and has ended again
        return [name for path in paths for name in _remove(path)]
    except OSError:
        # In use, or on a file system without locks, where nobody can tell.
        return []
    finally:
        for fd in held:
            os.close(fd)


def _is_old(path: Path, uid: int, before: float) -> bool:
    try:
        facts = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(facts.st_mode) and facts.st_uid == uid and facts.st_mtime < before


def _is_running(name: str) -> bool:
    """Whether a command line names this release; also true where none can be read."""
    stem = f"eagle3-remote-{name}"
    return not procfs.readable() or any(stem in word for pid in procfs.pids() for word in procfs.read_argv(pid))


def _remove(path: Path) -> list[str]:
    try:
        path.unlink()
    except OSError:
        return []
    return [path.name]
