"""Who would start a killed process again: a shell's loop, a process supervisor. Named before anything is killed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from remote import procfs
from remote.masking import masked
from remote.scripts import is_shell, read_script
from remote.text import clean

_SUPERVISORS = frozenset(
    {"supervisord", "circusd", "runsv", "runsvdir", "s6-supervise", "s6-svscan", "monit", "pm2", "god", "forever"}
    | {"nodemon", "watchexec", "entr", "supervise", "immortal", "dinit", "watch"}
)
_LOOP = re.compile(r"(?:^|[\s;&|({])(?:while|until|for)\b.*?\bdo\b|\brepeat\b", re.DOTALL)
_GENERATIONS = 6


@dataclass(frozen=True)
class Parent:
    """`respawns` is True for one that is known to start its child again, False for one that does not, None when it
    cannot be told: what was typed at an interactive shell's prompt is not visible."""

    pid: int
    argv: tuple[str, ...]
    respawns: bool | None

    def to_json(self) -> dict[str, Any]:
        """`parent` of a writer in the snapshot."""
        return {"pid": self.pid, "argv": list(self.argv), "respawns": self.respawns}


def parent_of(stat: procfs.Stat, among: list[procfs.Stat]) -> Parent | None:
    """The nearest ancestor that would start this process again; else its parent; None for an orphan of PID 1."""
    by_pid = {one.pid: one for one in among}
    nearest: Parent | None = None
    pid = stat.ppid
    for _ in range(_GENERATIONS):
        ancestor = by_pid.get(pid)
        if ancestor is None:
            break
        argv = procfs.read_argv(pid)
        respawns = _respawns(ancestor, argv)
        if pid == 1 and respawns is not True:
            # An orphan lands here whatever PID 1 is.
            break
        shown = tuple(clean(word, 300) for word in masked(argv)) or (clean(ancestor.comm, 60),)
        here = Parent(pid, shown, respawns)
        if respawns:
            return here
        if nearest is None:
            nearest = here
        pid = ancestor.ppid
    return nearest


def _respawns(stat: procfs.Stat, argv: list[str]) -> bool | None:
    names = {PurePath(word).name for word in argv[:2]} | {stat.comm}
    if names & _SUPERVISORS:
        return True
    if not argv or not is_shell(argv[0]):
        return False
    words = argv[1:]
    while words and words[0].startswith("-") and "c" not in words[0].lstrip("-"):
        words = words[1:]
    if not words:
        return None
    if words[0].startswith("-"):
        return len(words) > 1 and _LOOP.search(words[1]) is not None
    script = read_script(_under(words[0], procfs.read_cwd(stat.pid)))
    return None if script is None or script.text is None else _LOOP.search(script.text) is not None


def _under(word: str, cwd: str | None) -> str:
    return word if word.startswith("/") else f"{cwd or '/'}/{word}"
