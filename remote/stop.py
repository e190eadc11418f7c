"""Stop what runs, exactly that, and say truthfully what is left.

A supervised run is stopped by its supervisor and one without by a detached helper: either goes on
to the end when the operator's link drops. Success is that nothing of the group is left; a request
that was merely sent is not success.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from remote import audit, procfs
from remote.errors import OperatorError
from remote.identity import Identity, alive, identify, send, wait_gone
from remote.inflight import abort_leftovers
from remote.ladder import KILL_S, SETTLE_S, TERM_S, Aim, Ladder, longest_s
from remote.launch import own_command, run_detached
from remote.layout import Layout
from remote.members import Left, describe, find_members, tree_of
from remote.obituary import Death, exit_record
from remote.runfile import STOP_MODES, Run, number, read_exit, read_run, write_object, write_stop
from remote.status import GeneratorStatus, generator_status
from remote.text import clean

_SLACK_S = 10.0
_POLL_S = 0.1


@dataclass(frozen=True)
class Stopped:
    """What a stop came to. `left` empty is success; `took_s` in seconds; `lost_tokens` None where nobody can tell."""

    left: tuple[Left, ...]
    took_s: float
    how: str
    """`supervisor`, `ladder` (no supervisor: done by us), or `nothing-ran`."""
    lost_tokens: int | None = None
    exit: dict[str, Any] | None = None
    signals: tuple[str, ...] = ()
    respawned: tuple[dict[str, Any], ...] = field(default=())
    """Processes with the same command line that were not there before: somebody started it again."""

    @property
    def done(self) -> bool:
        """Whether nothing is left."""
        return not self.left and not self.respawned

    def to_json(self) -> dict[str, Any]:
        """The result of the `stop` and `kill_stray` methods."""
        return {
            "done": self.done,
            "left": [one.to_json() for one in self.left],
            "took_s": round(self.took_s, 2),
            "how": self.how,
            "lost_tokens": self.lost_tokens,
            "exit": self.exit,
            "signals": list(self.signals),
            "respawned": [dict(one) for one in self.respawned],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Stopped:
        """The inverse of `to_json`, for what a helper answered."""
        left = []
        for one in value.get("left") or ():
            identity = Identity.from_json(one.get("identity"))
            if identity is not None:
                left.append(Left(identity, str(one.get("argv") or ""), str(one.get("state") or "?")))
        lost = number(value.get("lost_tokens"))
        return cls(
            tuple(left),
            number(value.get("took_s")) or 0.0,
            str(value.get("how") or ""),
            None if lost is None else int(lost),
            value.get("exit"),
            tuple(str(name) for name in value.get("signals") or ()),
            tuple(value.get("respawned") or ()),
        )


def stop_run(layout: Layout, mode: str, drain_s: float, identity: Identity | None, by: str) -> Stopped:
    """Stop the generator: `drain` (at most `drain_s` seconds), `now` or `force`.

    `identity` is the generator that the operator saw: when another runs now, nothing is signalled.
    None stops whichever runs (the command line by hand). Blocks until nothing is left, or until
    the last rung has had its time.

    Raises OperatorError: `changed-hands` naming the other operator, `not-running`, `usage`,
    `not-permitted`, `stop-failed`.
    """
    _check_mode(mode)
    status = generator_status(layout)
    _same_hands(layout, status, identity)
    if not status.living:
        return _nothing_runs(layout, status, identity)
    run = status.run
    if run is not None and run.supervisor is not None and alive(run.supervisor):
        return _by_supervisor(layout, run, run.supervisor, mode, drain_s, by)
    return _by_helper(
        layout, {"what": "run", "mode": mode, "drain_s": drain_s, "by": by, **_named(status)}, mode, drain_s
    )


def stop_stray(layout: Layout, identity: Identity, by: str) -> Stopped:
    """Stop one process that we did not launch, with its children: INT, then TERM, then KILL, with waits.

    Carried out by a detached helper. Afterwards looks whether it was started again. Its requests on
    the engine are the caller's to watch. Raises OperatorError: `gone` when exactly this process no
    longer runs (nothing is signalled), `not-permitted`, `ours` for a process of our own run.
    """
    if not alive(identity):
        raise OperatorError(
            "gone",
            f"pid {identity.pid} is no longer the process that was named; nothing was signalled",
            "look again at what runs",
        )
    status = generator_status(layout)
    if status.living and status.identity == identity:
        raise OperatorError(
            "ours", f"pid {identity.pid} is the generator of run {status.run_id}", "stop it by drain, now or force"
        )
    settings = {"what": "stray", "identity": identity.to_json(), "by": by}
    return _by_helper(layout, settings, "stray", 0.0)


def _check_mode(mode: str) -> None:
    if mode not in STOP_MODES:
        raise OperatorError("usage", f"{clean(mode, 40)} is no way to stop", f"one of {', '.join(STOP_MODES)}")


def _same_hands(layout: Layout, status: GeneratorStatus, identity: Identity | None) -> None:
    if identity is None or not status.living or status.identity == identity:
        return
    now = f"pid {status.pid}" if status.pid is not None else "another run"
    when = time.strftime("%H:%M:%S", time.localtime(status.since)) if status.since else "an unknown time"
    raise OperatorError(
        "changed-hands",
        f"pid {identity.pid} no longer runs: {now} does, started by {status.by or 'somebody'} at {when}; nothing was signalled",
        "talk to them, or look again and decide anew",
    )


def _nothing_runs(layout: Layout, status: GeneratorStatus, identity: Identity | None) -> Stopped:
    """No generator of ours lives: what is left of the run's group is what counts."""
    run = status.run
    left = find_members(run.run_id, run.generator, run.supervisor) if run is not None else []
    if left:
        return Stopped(tuple(describe(one) for one in left), 0.0, "nothing-ran", exit=_plain(status))
    if status.verdict in ("held-by-stray", "unknown"):
        raise OperatorError(
            "not-running", f"no generator of ours runs, but {status.detail}", "look at what holds it, and stop that"
        )
    if identity is None:
        raise OperatorError("not-running", f"nothing to stop: {status.verdict}", "")
    return Stopped((), 0.0, "nothing-ran", exit=_plain(status))


def _plain(status: GeneratorStatus) -> dict[str, Any] | None:
    return dict(status.exit) if status.exit is not None else None


def _named(status: GeneratorStatus) -> dict[str, Any]:
    return {
        "run_id": status.run_id,
        "identity": status.identity.to_json() if status.identity else None,
        "own_session": status.run is not None and status.run.generator == status.identity,
    }


# -- a supervised run ---------------------------------------------------------


def _by_supervisor(layout: Layout, run: Run, supervisor: Identity, mode: str, drain_s: float, by: str) -> Stopped:
    began = time.monotonic()
    try:
        write_stop(layout, run.run_id, mode, drain_s, by)
    except OSError as error:
        if mode == "drain":
            # A TERM without its file is a drain anyway, of the launch's length: good enough, and the disk may be full.
            pass
        else:
            raise OperatorError(
                "stop-failed", f"cannot write {layout.stop_json}: {error.strerror}", "free space, or drain instead"
            ) from None
    try:
        send(supervisor, signal.SIGTERM)
    except PermissionError:
        raise _not_permitted(supervisor) from None
    deadline = began + longest_s(mode, drain_s) + TERM_S + KILL_S + _SLACK_S
    while time.monotonic() < deadline:
        ended = _ended(layout, run)
        left = find_members(run.run_id, run.generator, supervisor)
        if ended is not None and not left:
            # The supervisor itself may still abort requests and post; the lock says when it is through.
            _await_lock(layout, supervisor)
            return Stopped((), time.monotonic() - began, "supervisor", _lost(ended), ended)
        if ended is not None:
            return Stopped(
                tuple(describe(one) for one in left), time.monotonic() - began, "supervisor", _lost(ended), ended
            )
        if not alive(supervisor):
            # Killed under our hands: what it did not finish is ours now.
            break
        wait_gone([supervisor], _POLL_S)
    named = {"run_id": run.run_id, "identity": run.generator.to_json() if run.generator else None, "own_session": True}
    rest = _by_helper(
        layout,
        {"what": "run", "mode": "now" if mode == "drain" else mode, "drain_s": 0.0, "by": by, **named},
        mode,
        0.0,
    )
    if alive(supervisor):
        remaining = (*rest.left, describe(supervisor))
        return Stopped(remaining, time.monotonic() - began, "ladder", rest.lost_tokens, rest.exit, rest.signals)
    return Stopped(rest.left, time.monotonic() - began, "ladder", rest.lost_tokens, rest.exit, rest.signals)


def _await_lock(layout: Layout, supervisor: Identity) -> None:
    from remote.lock import is_held

    deadline = time.monotonic() + 30.0
    while is_held(layout) and alive(supervisor) and time.monotonic() < deadline:
        wait_gone([supervisor], _POLL_S)


def _ended(layout: Layout, run: Run) -> dict[str, Any] | None:
    try:
        return read_exit(layout, run.run_id)
    except OperatorError:
        return None


def _lost(ended: dict[str, Any] | None) -> int | None:
    found = number(ended.get("lost_tokens")) if ended else None
    return None if found is None else int(found)


def _not_permitted(identity: Identity) -> OperatorError:
    return OperatorError(
        "not-permitted",
        f"pid {identity.pid} belongs to another user of the container",
        "connect as that user, or as root",
    )


# -- without a supervisor: a detached helper ----------------------------------


def _by_helper(layout: Layout, settings: dict[str, Any], mode: str, drain_s: float) -> Stopped:
    limit_s = longest_s(mode, drain_s) + SETTLE_S + _SLACK_S
    answer = run_detached(
        [*own_command(layout), "stop", "--root", str(layout.root), "--settings", "-"],
        settings,
        limit_s,
        "stop-failed",
        "look again at what runs: it may still be at work",
    )
    return Stopped.from_json(answer)


def stop_here(layout: Layout, settings: dict[str, Any], api_key: str | None) -> Stopped:
    """The helper's work: climb the ladder for what `settings` name. Raises OperatorError."""
    identity = Identity.from_json(settings.get("identity"))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if settings.get("what") == "stray":
        if identity is None:
            raise OperatorError("usage", "no process was named", "name one by its identity")
        return _stray(layout, identity, str(settings.get("by") or ""))
    return _unsupervised(layout, settings, identity, api_key)


def _unsupervised(layout: Layout, settings: dict[str, Any], identity: Identity | None, api_key: str | None) -> Stopped:
    began = time.monotonic()
    mode, by = str(settings["mode"]), str(settings.get("by") or "")
    run_id = str(settings.get("run_id") or "")
    own_session = bool(settings.get("own_session"))
    if run_id:
        with contextlib.suppress(OSError):
            write_stop(layout, run_id, mode, float(settings["drain_s"]), by)

    def members() -> list[Identity]:
        if own_session:
            return find_members(run_id, identity)
        # Started by hand: it shares its session with a shell, so only its own tree is ours to stop.
        return tree_of(identity) if identity is not None else []

    ladder = Ladder(mode, time.monotonic(), float(settings["drain_s"]))
    signals, left = _climb(ladder, members, identity)
    ended = _record_end(layout, run_id, mode, by, ladder) if own_session and not left else None
    with contextlib.suppress(OSError):
        abort_leftovers(layout, api_key)
    return Stopped(
        tuple(describe(one) for one in left), time.monotonic() - began, "ladder", _lost(ended), ended, tuple(signals)
    )


def _record_end(layout: Layout, run_id: str, mode: str, by: str, ladder: Ladder) -> dict[str, Any] | None:
    """The exit record that a dead supervisor can no longer write. Its code is unknown: nobody was there to wait for it."""
    try:
        run = read_run(layout)
        if run is None or run.run_id != run_id:
            return None
        number_ = int(signal.SIGKILL if ladder.killed else signal.SIGTERM)
        record = exit_record(
            run, Death(None, number_), time.time(), asked={"mode": mode, "by": by}, killed_by_us=ladder.killed
        )
        if not ladder.killed:
            record = {**record, "code": None, "signal": None, "detail": f"it stopped on request ({mode} by {by})"}
        write_object(layout.exit_json, record)
        return record
    except (OSError, OperatorError):
        return None


def _stray(layout: Layout, identity: Identity, by: str) -> Stopped:
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
    signals, left = _climb(Ladder("stray", time.monotonic()), members, identity)
    respawned = _respawned(argv, before, left)
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
        if ladder.exhausted(now):
            return signals, left
        rung = ladder.step(now)
        if rung is not None:
            alone = rung.aim is Aim.LEADER and leader is not None and alive(leader)
            for one in [leader] if alone and leader is not None else left:
                try:
                    send(one, rung.signal)
                except PermissionError:
                    raise _not_permitted(one) from None
            signals.append(rung.signal.name)
        wait_gone(left, min(0.25, max(0.02, ladder.wait_s(time.monotonic()))))


_RESPAWN_LOOK_S = 3.0
"""A `while true` starts its script again at once, or after the second or two that its `sleep` takes."""


def _respawned(argv: list[str], before: set[Identity], left: list[Identity]) -> list[dict[str, Any]]:
    if not argv:
        return []
    deadline = time.monotonic() + _RESPAWN_LOOK_S
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


def record_stop(layout: Layout, by: str, stopped: Stopped, target: Identity | None, what: str) -> None:
    """Put a stop into the audit. Raises OperatorError("audit")."""
    left = "; ".join(str(one) for one in stopped.left)
    outcome = "stopped" if stopped.done else ("started again" if stopped.respawned and not stopped.left else "not gone")
    detail = f"left: {left}" if left else f"took {stopped.took_s:.1f} s, {' '.join(stopped.signals) or stopped.how}"
    audit.record(layout, by, what, outcome, detail, target.to_json() if target else None)
