"""Which processes belong to a run: its generator, its session, and all that carry its mark.

A child that calls `setsid` leaves the session but keeps the environment it was started with; a
child that replaces its environment stays in the session. Who does both is no longer ours.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from remote import procfs
from remote.identity import Identity, alive, of_stat, same_world
from remote.masking import masked
from remote.text import clean


@dataclass(frozen=True)
class Left:
    """A process that is still there, as an operator is told of it."""

    identity: Identity
    argv: str
    state: str
    """The kernel's letter: R and S run, T is stopped, D waits in the kernel and cannot be killed."""

    def __str__(self) -> str:
        why = ", waits in the kernel and cannot be killed (state D)" if self.state == "D" else ""
        return f"pid {self.identity.pid} ({self.argv or 'no command line'}{why})"

    def to_json(self) -> dict[str, Any]:
        """One entry of `left`."""
        return {"pid": self.identity.pid, "identity": self.identity.to_json(), "argv": self.argv, "state": self.state}


def describe(identity: Identity) -> Left:
    """A living process with its (masked) command line and state."""
    stat = procfs.read_stat(identity.pid)
    argv = clean(" ".join(masked(procfs.read_argv(identity.pid))), 200)
    return Left(identity, argv, stat.state if stat is not None else "?")


def find_members(run_id: str, generator: Identity | None, supervisor: Identity | None = None) -> list[Identity]:
    """The living processes of a run, its generator first; never the supervisor, never the caller.

    `generator` must lead its own session to claim the session's members: one started by hand
    shares its session with the shell of whoever typed it.
    """
    not_ours = {os.getpid(), supervisor.pid if supervisor is not None else 0}
    leader = generator if generator is not None and same_world(generator) else None
    leads = leader is not None and _leads_its_session(leader)
    found: list[Identity] = []
    for stat in procfs.stats():
        if stat.dead or stat.pid in not_ours:
            continue
        is_leader = leader is not None and (stat.pid, stat.start_ticks) == (leader.pid, leader.start_ticks)
        in_session = leads and leader is not None and stat.session == leader.pid
        if is_leader or in_session or (run_id and procfs.read_mark(stat.pid) == run_id):
            found.append(of_stat(stat))
    found.sort(key=lambda identity: (identity != generator, identity.pid))
    return found


def _leads_its_session(generator: Identity) -> bool:
    """Whether the session numbered like the generator is the generator's own.

    A pid stays taken while its session has members, and the supervisor leaves a dead generator
    unreaped until the others are gone. Where the leader cannot be seen any more the number proves
    nothing, and only the mark counts.
    """
    stat = procfs.read_stat(generator.pid)
    return stat is not None and stat.start_ticks == generator.start_ticks and stat.session == generator.pid


def tree_of(identity: Identity) -> list[Identity]:
    """A process and its living descendants: what is stopped where there is no session of its own.

    Never the caller nor those that started it, should they descend from it.
    """
    if not alive(identity):
        return []
    among = [stat for stat in procfs.stats() if not stat.dead]
    spared = _line_of(os.getpid(), among) - {identity.pid}
    return [
        identity,
        *(of_stat(stat) for stat in procfs.descendants(identity.pid, among) if stat.pid not in spared),
    ]


def _line_of(pid: int, among: list[procfs.Stat]) -> set[int]:
    parents = {stat.pid: stat.ppid for stat in among}
    line = {pid}
    while (pid := parents.get(pid, 0)) and pid not in line:
        line.add(pid)
    return line
