"""Processes that write the datasets and were not launched by us: an older script started by hand, a second pipeline.

Found by the data files they hold open for writing, and by their command line, since a script that
opens, appends and closes holds nothing most of the time. Mere readers are left out, and so are
the processes of our own run (by identity, mark and lock). Command lines are masked and cleaned.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from remote import procfs
from remote.errors import OperatorError
from remote.flags import Flags, read_flags
from remote.identity import Identity, alive, of_stat
from remote.layout import STATE_FOLDER, Layout
from remote.masking import masked
from remote.parents import Parent, parent_of
from remote.runfile import read_run
from remote.scripts import Script, may_run_python, read_script, script_of
from remote.text import clean


@dataclass(frozen=True)
class Writer:
    """One such process. Times in Unix seconds; None is unknown."""

    identity: Identity
    argv: tuple[str, ...]
    files: tuple[str, ...]
    """Data files it has open for writing at this moment."""
    datasets: tuple[str, ...]
    """The folders of those files."""
    script: Script | None
    flags: Flags
    since: float | None
    cwd: str | None
    parent: Parent | None
    found_by: str = field(default="open")
    """`open`: it holds a data file; `command`: its command line and its script say that it writes here."""

    @property
    def pid(self) -> int:
        """Its pid; signals go by `identity`."""
        return self.identity.pid

    def to_json(self) -> dict[str, Any]:
        """One entry of the snapshot's `writers`, without the needless tokens that the plan adds."""
        script, budget = self.script, self.flags.token_budget
        return {
            "pid": self.pid,
            "identity": self.identity.to_json(),
            "argv": list(self.argv),
            "files": list(self.files),
            "datasets": list(self.datasets),
            "script": script.path if script else None,
            "script_digest": script.digest if script else None,
            "script_mtime": script.mtime if script else None,
            "knows_token_budget": self.knows_token_budget,
            "token_budget": str(budget) if budget is not None else None,
            "max_samples": self.flags.max_samples,
            "selected": list(self.flags.datasets) if self.flags.datasets is not None else None,
            "flags_known": self.flags.known,
            "since": self.since,
            "cwd": self.cwd,
            "parent": self.parent.to_json() if self.parent else None,
            "found_by": self.found_by,
        }

    @property
    def knows_token_budget(self) -> bool | None:
        """Whether its script mentions `--token-budget` at all; a flag that it was given settles it."""
        if self.flags.token_budget is not None:
            return True
        return self.script.knows_token_budget if self.script else None


def find_writers(layout: Layout) -> list[Writer]:
    """Look once, through all processes that `/proc` shows. Never raises; in ascending order of pid."""
    root = os.path.realpath(layout.root)
    among = [stat for stat in procfs.stats() if not stat.dead]
    opened = {stat.pid: procfs.open_files(stat.pid, root) for stat in among}
    ours = _ours(layout, root, opened)
    found = [
        writer
        for stat in among
        if stat.pid not in ours and (writer := _look(stat, root, opened[stat.pid], among)) is not None
    ]
    return _merged(found, among)


def _ours(layout: Layout, root: str, opened: dict[int, list[procfs.OpenFile]]) -> set[int]:
    """The one that looks, the run's own, and whoever holds the lock (`generate` or `retokenize` by hand)."""
    lock = f"{root}/{STATE_FOLDER}/{layout.run_lock.name}"
    ours = {pid for pid, files in opened.items() if any(file.flock and file.path == lock for file in files)}
    ours.add(os.getpid())
    try:
        run = read_run(layout)
    except OperatorError:
        run = None
    for identity in (run.generator, run.supervisor) if run is not None else ():
        if identity is not None and alive(identity):
            ours.add(identity.pid)
    return ours


def _look(stat: procfs.Stat, root: str, opened: list[procfs.OpenFile], among: list[procfs.Stat]) -> Writer | None:
    files = sorted({file.path for file in opened if file.writes and _is_data(file.path, root)})
    argv = procfs.read_argv(stat.pid)
    if not files and not may_run_python(argv):
        return None
    cwd = procfs.read_cwd(stat.pid)
    script_path, code = script_of(argv, cwd)
    if not files and not _says_so(argv, cwd, script_path, code, root):
        return None
    if procfs.read_mark(stat.pid):
        return None
    return Writer(
        identity=of_stat(stat),
        argv=tuple(clean(word, 300) for word in masked(argv)),
        files=tuple(clean(path, 500) for path in files),
        datasets=tuple(sorted({path[len(root) + 1 :].split("/", 1)[0] for path in files})),
        script=read_script(script_path, code),
        flags=read_flags(argv),
        since=procfs.started_at(stat),
        cwd=clean(cwd, 500) if cwd is not None else None,
        parent=parent_of(stat, among),
        found_by="open" if files else "command",
    )


def _is_data(path: str, root: str) -> bool:
    """Whether a path below the root is a dataset's: a log that somebody keeps there harms nothing."""
    folder, _, name = path[len(root) + 1 :].partition("/")
    return bool(name) and folder != STATE_FOLDER and ".jsonl" in name


def _says_so(argv: list[str], cwd: str | None, script_path: str | None, code: str | None, root: str) -> bool:
    """Whether a Python command line is that of a script that writes answers under this root."""
    if script_path is None and code is None:
        return False
    script = read_script(script_path, code)
    if script is None or script.writes_answers is False:
        return False
    if script.writes_answers is None and not script.named_like_inference:
        return False
    return _names(argv[1:], cwd, root) or (script.mentions(root) and "--root" not in " ".join(argv))


def _names(words: Iterable[str], cwd: str | None, root: str) -> bool:
    """Whether a word of a command line (or the value after its `=`) is the root or lies below it."""
    if cwd is not None and (cwd == root or cwd.startswith(root + "/")):
        return True
    for word in words:
        value = word.partition("=")[2] if word.startswith("-") else word
        if not value:
            continue
        path = os.path.realpath(os.path.join(cwd or "/", value))
        if path == root or path.startswith(root + "/"):
            return True
    return False


def _merged(found: list[Writer], among: list[procfs.Stat]) -> list[Writer]:
    """A script's own worker processes are part of it, not writers of their own: it is stopped with them."""
    parents = {stat.pid: stat.ppid for stat in among}
    by_pid = {writer.pid: writer for writer in found}
    files: dict[int, set[str]] = {writer.pid: set(writer.files) for writer in found}
    tops: list[Writer] = []
    for writer in found:
        top = _top(writer.pid, parents, by_pid)
        if top == writer.pid:
            tops.append(writer)
        else:
            files[top] |= files[writer.pid]
    merged = []
    for writer in tops:
        below = [by_pid[pid] for pid in by_pid if _top(pid, parents, by_pid) == writer.pid]
        datasets = sorted({name for one in below for name in one.datasets})
        found_by = "open" if files[writer.pid] else writer.found_by
        merged.append(
            replace(writer, files=tuple(sorted(files[writer.pid])), datasets=tuple(datasets), found_by=found_by)
        )
    return sorted(merged, key=lambda writer: writer.pid)


def _top(pid: int, parents: dict[int, int], by_pid: dict[int, Writer]) -> int:
    """The highest ancestor that is a writer with the same script; a shell in between belongs to neither."""
    top = pid
    parent = parents.get(pid, 0)
    while parent in by_pid and by_pid[parent].script == by_pid[pid].script:
        top = parent
        parent = parents.get(parent, 0)
    return top
