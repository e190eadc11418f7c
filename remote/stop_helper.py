"""The work of a stop where no supervisor does it: a process of its own, so that it completes when the link drops."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from typing import Any

from remote import procfs
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.handshake import API_KEY
from remote.identity import Identity, alive, identify, send, wait_gone
from remote.inflight import abort_leftovers
from remote.ladder import Aim, Ladder
from remote.layout import Layout
from remote.members import describe, find_members, tree_of
from remote.obituary import Death, exit_record
from remote.runfile import STOP_MODES, number, read_run, write_object, write_stop
from remote.stopped import Stopped

_LOOK_S = 0.5


def not_permitted(identity: Identity) -> OperatorError:
    """Another user's process."""
    return OperatorError(
        "not-permitted",
        f"pid {identity.pid} belongs to another user of the container",
        "connect as that user, or as root",
    )


def stop_here(layout: Layout, settings: dict[str, Any], api_key: str | None) -> Stopped:
    """The helper's work: climb the ladder for what `settings` name. Raises OperatorError."""
    identity = Identity.from_json(settings.get("identity"))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if settings.get("what") == "stray":
        if identity is None:
            raise OperatorError("usage", "no process was named", "name one by its identity")
        return _stray(identity, number(settings.get("patience_s")))
    return _unsupervised(layout, settings, identity, api_key)


def _unsupervised(layout: Layout, settings: dict[str, Any], identity: Identity | None, api_key: str | None) -> Stopped:
    began = time.monotonic()
    mode, by = str(settings["mode"]), str(settings.get("by") or "")
    run_id = str(settings.get("run_id") or "")
    own_session = bool(settings.get("own_session"))
    if run_id and mode in STOP_MODES:
        with contextlib.suppress(OSError):
            write_stop(layout, run_id, mode, float(settings["drain_s"]), by)

    def members() -> list[Identity]:
        if own_session:
            return find_members(run_id, identity)
        # Started by hand: it shares its session with a shell, so only its own tree is ours to stop.
        return tree_of(identity) if identity is not None else []

    if not api_key and identity is not None and alive(identity):
        # Nobody else has the key of an engine that wants one, and requests that run on cost eight GPUs.
        api_key = procfs.read_variable(identity.pid, API_KEY) or None
    ladder = Ladder(mode, time.monotonic(), float(settings["drain_s"]), number(settings.get("patience_s")))
    signals, left = _climb(ladder, members, identity)
    ended = _record_end(layout, run_id, mode, by, ladder) if own_session and not left and mode in STOP_MODES else None
    with contextlib.suppress(OSError):
        abort_leftovers(layout, api_key)
    return Stopped(
        tuple(describe(one) for one in left), time.monotonic() - began, "ladder", None, ended, tuple(signals)
    )


def _record_end(layout: Layout, run_id: str, mode: str, by: str, ladder: Ladder) -> dict[str, Any] | None:
    """The exit record that a dead supervisor can no longer write. Its code is unknown: nobody was there to wait for it."""
    try:
        run = read_run(layout)
        if run is None or run.run_id != run_id:
            return None
        death = Death(None, int(signal.SIGKILL)) if ladder.killed else Death(int(ExitCode.STOPPED), None)
        record = exit_record(run, death, time.time(), asked={"mode": mode, "by": by}, killed_by_us=ladder.killed)
        if not ladder.killed:
            record["code"] = None
        write_object(layout.exit_json, record)
        return record
    except (OSError, OperatorError):
        return None


def _stray(identity: Identity, patience_s: float | None) -> Stopped:
    began = time.monotonic()
    argv = procfs.read_argv(identity.pid)
    before = _same_argv(argv)
    tree: dict[Identity, None] = {}

    def members() -> list[Identity]:
        # Children that a dying parent leaves behind are still its children for us.
        for one in [*tree_of(identity), *(child for known in list(tree) for child in tree_of(known))]:
            tree.setdefault(one, None)
        return [one for one in tree if alive(one)]

    members()
    signals, left = _climb(Ladder("stray", time.monotonic(), patience_s=patience_s), members, identity)
    look_s = _RESPAWN_LOOK_S if patience_s is None else min(_RESPAWN_LOOK_S, patience_s)
    respawned = _respawned(argv, before, left, look_s)
    return Stopped(
        tuple(describe(one) for one in left),
        time.monotonic() - began,
        "ladder",
        signals=tuple(signals),
        respawned=tuple(respawned),
    )


def _climb(
    ladder: Ladder, members: Callable[[], list[Identity]], leader: Identity | None
) -> tuple[list[str], list[Identity]]:
    """Climb until nothing is left or nothing more can be done; returns the signals sent, and who is left."""
    signals: list[str] = []
    while True:
        left = members()
        if not left:
            return signals, []
        now = time.monotonic()
        if leader is not None and leader not in left:
            ladder.leader_gone(now)
        if ladder.exhausted(now):
            return signals, left
        rung = ladder.step(now)
        if rung is not None:
            for one in [leader] if rung.aim is Aim.LEADER and leader is not None else left:
                try:
                    send(one, rung.signal)
                except PermissionError:
                    raise not_permitted(one) from None
            signals.append(rung.signal.name)
        wait_gone(left, min(_LOOK_S, max(0.02, ladder.wait_s(time.monotonic()))))


_RESPAWN_LOOK_S = 3.0
"""A `while true` starts its script again at once, or after the second or two that its `sleep` takes."""


def _respawned(argv: list[str], before: set[Identity], left: list[Identity], look_s: float) -> list[dict[str, Any]]:
    if not argv:
        return []
    deadline = time.monotonic() + look_s
    while True:
        fresh = sorted(_same_argv(argv) - before - set(left), key=lambda one: one.pid)
        if fresh or time.monotonic() >= deadline:
            break
        time.sleep(0.1)
    found = []
    for one in fresh:
        stat = procfs.read_stat(one.pid)
        parent = identify(stat.ppid) if stat is not None and stat.ppid > 1 else None
        found.append({**describe(one).to_json(), "parent": describe(parent).to_json() if parent is not None else None})
    return found


def _same_argv(argv: list[str]) -> set[Identity]:
    """Living processes with exactly this command line."""
    found: set[Identity] = set()
    for pid in procfs.pids():
        if pid != os.getpid() and procfs.read_argv(pid) == argv:
            identity = identify(pid)
            if identity is not None:
                found.add(identity)
    return found
