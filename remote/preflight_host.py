"""Preflight checks of the container itself: disk, root, lock, writers, growth, records, clock, release, hold."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from remote import figures
from remote.check import BLOCKER, OK, WARNING, Check
from remote.host import disk as disk_facts
from remote.layout import RESPONSES, dataset_id
from remote.lock import Holder, holder
from remote.preflight_look import Look
from remote.settling import still_growing
from remote.text import clean

DISK_MARGIN = 1.25
"""An estimate of bytes may be a quarter too small before a disk that was said to be large enough fills."""
FEW_INODES = 200
CLOCK_LIMIT_S = 5.0


def disk(look: Look) -> Check:
    """Room for the expected bytes; a rebuild needs its full size beside the old file."""
    facts = disk_facts(look.layout.root)
    free, needed = facts["free_bytes"], look.plan.totals.needed_bytes
    if free is None:
        return Check("disk", WARNING, f"free space cannot be read: {clean(facts.get('detail'))}")
    words = f"{figures.size(free)} free, about {figures.size(needed)} needed"
    remedy = f"free space under {look.layout.root}, or a lower --token-budget"
    kept = _kept_bytes(look.layout.previous)
    if kept:
        remedy += f"; replaced rows hold {figures.size(kept)} of it: {look.layout.previous}"
    inodes = facts["free_inodes"]
    if inodes is not None and inodes < FEW_INODES:
        return Check(
            "disk",
            BLOCKER,
            f"{inodes} files can still be made on its file system",
            f"remove files: df -i {look.layout.root}",
        )
    if free < needed:
        return Check("disk", BLOCKER, words, remedy)
    if free < needed * DISK_MARGIN:
        return Check("disk", WARNING, f"{words}: a close thing", remedy)
    return Check("disk", OK, words)


def _kept_bytes(folder: Path) -> int:
    """What removing the rows that rebuilds replaced would free: a file that has another name too frees nothing."""
    try:
        found = [entry.stat(follow_symlinks=False) for entry in os.scandir(folder)]
    except OSError:
        return 0  # there is none, or it cannot be looked at: then it is no remedy
    return sum(facts.st_blocks * 512 for facts in found if stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1)


def root(look: Look) -> Check:
    """The root, its state folder and every file that will be appended to are writable."""
    if look.options.read_only:
        return Check("root", BLOCKER, "--read-only: nothing may be written", "leave --read-only out")
    folder = look.layout.root
    wrong = [path for path in _written(look) if not _writable(path)]
    if not wrong:
        return Check("root", OK, f"{clean(folder)} is writable")
    # access() as root says no only for a read-only file system, where chmod would not help.
    read_only = bool(os.statvfs(folder).f_flag & os.ST_RDONLY) if folder.exists() else False
    remedy = f"mount -o remount,rw {folder}" if read_only else f"chown -R {os.geteuid()} {wrong[0]}"
    return Check("root", BLOCKER, f"{clean(wrong[0])} is not writable", remedy)


def _written(look: Look) -> list[Path]:
    layout = look.layout
    paths = [layout.state if layout.state.exists() else layout.root]
    for plan in look.plan.datasets:
        if plan.works or plan.rebuilds:
            folder = layout.folder(plan.folder)
            paths += [path for path in (folder, folder / RESPONSES) if path.exists()]
    return paths


def _writable(path: Path) -> bool:
    need = os.W_OK | os.X_OK if path.is_dir() else os.W_OK
    return os.access(path, need)


def lock(look: Look) -> Check:
    """Nobody holds the lock, or ours does, which a restart stops first."""
    held = holder(look.layout)
    if held is None:
        return Check("lock", OK, "free")
    ours = _is_ours(held, look)
    if ours and look.stops_generator and not look.launching:
        return Check("lock", OK, f"held by {clean(held)}, which is stopped first")
    stop = f"eagle3-remote stop --root {look.layout.root}" if ours else f"kill {held.pid}" if held.pid else ""
    return Check("lock", BLOCKER, f"held by {clean(held)}", stop)


def _is_ours(held: Holder, look: Look) -> bool:
    ours = {process.pid for process in look.around.processes if process.ours}
    return bool(ours & {held.pid, *held.pids})


def writers(look: Look) -> Check:
    """Processes that write under the root and were not launched by us: each must be named to be killed."""
    strangers = [process for process in look.around.processes if not process.ours]
    left = [process for process in strangers if look.launching or process.pid not in look.stopping]
    if not strangers:
        return Check("writers", OK, "nobody else writes these files")
    if not left:
        pids = ", ".join(f"pid {process.pid}" for process in strangers)
        return Check("writers", OK, f"{pids}: killed first, as named")
    words = "; ".join(
        f"pid {process.pid} ({clean(' '.join(process.argv), 100)})"
        + (", which its parent may start again" if process.respawns else "")
        for process in left
    )
    flags = " ".join(f"--kill-pid {process.pid}" for process in left)
    return Check("writers", BLOCKER if look.launching else WARNING, f"not launched by us: {words}", flags)


def growth(look: Look) -> Check:
    """A file that grows though nobody is known to write it: somebody is there who cannot be seen."""
    known = {folder for process in look.around.processes for folder in process.datasets}
    ours = any(process.ours for process in look.around.processes)
    growing = [
        state.folder
        for state in look.states
        if state.growing and state.folder not in known and not _explained(state.responses_changed_at, look.ended_at)
    ]
    unseen = [process for process in look.around.processes if not process.datasets and not process.ours]
    if growing and not ours and not unseen:
        # A writer that has just died leaves files that grew until a moment ago; only one that writes on is in the way.
        growing = still_growing(look.layout, growing)
    if growing and not ours and not unseen:
        names = ", ".join(dataset_id(folder) for folder in growing)
        return Check(
            "growth",
            BLOCKER,
            f"{names} grows, and no process is known that writes it (another container, or another user's?)",
            f"find it: fuser -v {look.layout.folder(growing[0]) / RESPONSES}; if it has just ended, look again in 15 s",
        )
    return Check("growth", OK, "no file grows without a known writer")


def _explained(changed_at: float | None, ended_at: float | None) -> bool:
    """Whether the last growth was before the end of a process that was known to write.

    The scan calls a file growing for some seconds after its last line: long enough for a restart to
    stop the writer and to ask here.
    """
    return changed_at is not None and ended_at is not None and changed_at <= ended_at


def records(look: Look) -> Check:
    """All records by class, and the datasets that too many unusable ones block."""
    total = sum(state.responses or 0 for state in look.states)
    unusable = sum(state.records.unusable for state in look.states)
    blocked = [plan for plan in look.plan.datasets if plan.decision == "blocked"]
    words = f"{figures.plural(total, 'record')} checked, {unusable:,} unusable"
    if blocked:
        names = ", ".join(plan.id for plan in blocked)
        accepts = " ".join(
            f"--accept faulty:{plan.id}" for plan in blocked if any(item.code == "faulty" for item in plan.problems)
        )
        return Check("records", WARNING, f"{words}; {names} left out of the run", accepts)
    return Check("records", WARNING if unusable else OK, f"{words}{': generated again' if unusable else ''}")


def clock(look: Look) -> Check:
    """The container's clock against the operator's; ages are computed on the container, so skew only confuses people."""
    if look.operator_at is None:
        return Check("clock", OK, f"{figures.clock(look.around.at)} UTC here; not compared with another clock")
    skew = look.around.at - look.operator_at
    words = f"{figures.duration(abs(skew))} {'ahead of' if skew > 0 else 'behind'} the operator's"
    if abs(skew) > CLOCK_LIMIT_S:
        return Check("clock", WARNING, f"the container's clock is {words}", "compare: date -u; timedatectl")
    return Check("clock", OK, f"the container's clock is {words}")


def release(look: Look) -> Check:
    """What is shipped against what runs."""
    here = look.around.release
    running = {process.release for process in look.around.processes if process.ours and process.release}
    if not here:
        return Check("release", WARNING, "this program does not know its own release")
    others = sorted(running - {here})
    if others:
        return Check(
            "release", OK, f"{here[:12]} is shipped; what runs has {', '.join(clean(name, 12) for name in others)}"
        )
    return Check("release", OK, f"{here[:12]} is shipped{', and runs' if running else ''}")


def hold(look: Look) -> Check:
    """Somebody's order that nothing be started."""
    held = look.hold
    if held is None:
        return Check("hold", OK, "nobody holds it")
    until = f", until {figures.moment(held['until'], look.around.at)} UTC" if held.get("until") else ""
    by = f" by {clean(held['by'], 80)}" if held.get("by") else ""
    return Check("hold", BLOCKER, f"held{by}: {clean(held.get('reason') or 'no reason given')}{until}")
