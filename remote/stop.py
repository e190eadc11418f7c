"""Stop what runs, exactly that, and say truthfully what is left.

A supervised run is stopped by its supervisor and one without by a detached helper: either goes on
to the end when the operator's link drops. Success is that nothing of the group is left; a request
that was merely sent is not success.
"""

from __future__ import annotations

import contextlib
import signal
import time
from dataclasses import replace
from typing import Any

from remote.detached import own_command, run_detached
from remote.errors import OperatorError
from remote.figures import moment
from remote.identity import Identity, alive, send, wait_gone
from remote.ladder import KILL_S, SETTLE_S, TERM_S, longest_s
from remote.layout import Layout
from remote.lock import is_held
from remote.members import describe, find_members
from remote.runfile import STOP_MODES, Run, number, read_exit, write_stop
from remote.status import GeneratorStatus, generator_status
from remote.stop_helper import not_permitted
from remote.stopped import Stopped
from remote.text import clean

_SLACK_S = 10.0
_POLL_S = 0.1
_LOOK_S = 0.5
_ABORTS_S = 30.0


def stop_run(
    layout: Layout,
    mode: str,
    drain_s: float,
    identity: Identity | None,
    by: str,
    patience_s: float | None = None,
) -> Stopped:
    """Stop the generator: `drain` (at most `drain_s` seconds), `now` or `force`.

    `patience_s` is what it is given to settle before harder means; a fair default when not given.
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
        return _nothing_runs(layout, status, identity, by, patience_s)
    run = status.run
    if run is not None and run.supervisor is not None and alive(run.supervisor):
        return _by_supervisor(layout, run, run.supervisor, mode, drain_s, by, patience_s)
    settings = {"what": "run", "mode": mode, "drain_s": drain_s, "by": by, "patience_s": patience_s, **_named(status)}
    return _by_helper(layout, settings, mode, drain_s)


def stop_stray(layout: Layout, identity: Identity, by: str, patience_s: float | None = None) -> Stopped:
    """Stop one process that we did not launch, with its children: INT, then TERM, then KILL, with waits.

    INT and TERM are each given `patience_s`.
    Carried out by a detached helper. Afterwards looks, for three seconds at most, whether it was started again. Its requests on
    the engine are the caller's to watch. Raises OperatorError: `gone` when exactly this process no
    longer runs (nothing is signalled), `not-permitted`, `ours` for the generator, `pid-1`.
    """
    if not alive(identity):
        raise OperatorError(
            "gone",
            f"pid {identity.pid} is no longer the process that was named; nothing was signalled",
            "look again at what runs",
        )
    if identity.pid == 1:
        raise OperatorError(
            "pid-1",
            "pid 1 is the container's own first process: ending it ends the container",
            "stop the container instead",
        )
    status = generator_status(layout)
    if status.living and status.identity == identity:
        raise OperatorError(
            "ours", f"pid {identity.pid} is the generator of run {status.run_id}", "stop it by drain, now or force"
        )
    settings = {"what": "stray", "identity": identity.to_json(), "by": by, "patience_s": patience_s}
    return _by_helper(layout, settings, "stray", 0.0)


def _check_mode(mode: str) -> None:
    if mode not in STOP_MODES:
        raise OperatorError("usage", f"{clean(mode, 40)} is no way to stop", f"one of {', '.join(STOP_MODES)}")


def _same_hands(layout: Layout, status: GeneratorStatus, identity: Identity | None) -> None:
    if identity is None or not status.living or status.identity == identity:
        return
    now = f"pid {status.pid}" if status.pid is not None else "another run"
    when = f"{moment(status.since, time.time())} UTC" if status.since else "an unknown time"
    raise OperatorError(
        "changed-hands",
        f"pid {identity.pid} no longer runs: {now} does, started by {status.by or 'somebody'} at {when}; nothing was signalled",
        "talk to them, or look again and decide anew",
    )


def _nothing_runs(
    layout: Layout, status: GeneratorStatus, identity: Identity | None, by: str, patience_s: float | None
) -> Stopped:
    """No generator of ours lives; what is left of its group is ended all the same."""
    run = status.run
    if run is not None and find_members(run.run_id, run.generator, run.supervisor):
        settings = {"what": "run", "mode": "rest", "drain_s": 0.0, "by": by, "patience_s": patience_s, **_named(status)}
        return _by_helper(layout, settings, "rest", 0.0)
    if status.verdict in ("held-by-stray", "unknown"):
        raise OperatorError(
            "not-running", f"no generator of ours runs, but {status.detail}", "look at what holds it, and stop that"
        )
    if identity is None:
        raise OperatorError("not-running", f"nothing to stop: {status.verdict}", "")
    return Stopped((), 0.0, "nothing-ran", exit=dict(status.exit) if status.exit is not None else None)


def _named(status: GeneratorStatus) -> dict[str, Any]:
    return {
        "run_id": status.run_id,
        "identity": status.identity.to_json() if status.identity else None,
        "own_session": status.run is not None and status.run.generator == status.identity,
    }


# -- a supervised run ---------------------------------------------------------


def _by_supervisor(
    layout: Layout, run: Run, supervisor: Identity, mode: str, drain_s: float, by: str, patience_s: float | None
) -> Stopped:
    began = time.monotonic()
    named = {"run_id": run.run_id, "identity": run.generator.to_json() if run.generator else None, "own_session": True}
    told = True
    try:
        write_stop(layout, run.run_id, mode, drain_s, by, patience_s)
    except OSError:
        # A full disk. A TERM without its file is a drain of the launch's length; harder means go past the supervisor.
        told = mode == "drain"
    if told:
        try:
            send(supervisor, signal.SIGTERM)
        except PermissionError:
            with contextlib.suppress(OSError):
                layout.stop_json.unlink()  # what is refused must not be carried out later
            raise not_permitted(supervisor) from None
        if (done := _await_end(layout, run, supervisor, began, longest_s(mode, drain_s, patience_s))) is not None:
            return done
    settings = {"what": "run", "mode": "force" if mode == "force" else "now", "drain_s": 0.0, "by": by, **named}
    rest = _by_helper(layout, {**settings, "patience_s": patience_s}, "now", 0.0)
    # The dead generator's supervisor has its own end to write; one that stays is stuck, and named.
    stuck = [describe(one) for one in wait_gone([supervisor], TERM_S + KILL_S)]
    return replace(rest, left=(*rest.left, *stuck), took_s=time.monotonic() - began)


def _await_end(layout: Layout, run: Run, supervisor: Identity, began: float, limit_s: float) -> Stopped | None:
    """Wait while the supervisor climbs; None when it was killed meanwhile, or did not get through in its time."""
    deadline = began + limit_s + TERM_S + KILL_S + _SLACK_S
    while time.monotonic() < deadline:
        if alive(run.generator) and run.generator is not None:
            if not alive(supervisor):
                return None
            wait_gone([run.generator], _LOOK_S)
            continue
        ended = _ended(layout, run)
        if ended is not None:
            left = find_members(run.run_id, run.generator, supervisor)
            if not left:
                # It may still abort requests on the engine: the lock says when the next run may start.
                _await_lock(layout, supervisor)
            lost = _lost(ended)
            return Stopped(tuple(describe(one) for one in left), time.monotonic() - began, "supervisor", lost, ended)
        if not alive(supervisor):
            return None
        wait_gone([supervisor], _POLL_S)
    return None


def _await_lock(layout: Layout, supervisor: Identity) -> None:
    deadline = time.monotonic() + _ABORTS_S
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


# -- without a supervisor: a detached helper ----------------------------------


def _by_helper(layout: Layout, settings: dict[str, Any], mode: str, drain_s: float) -> Stopped:
    limit_s = longest_s(mode, drain_s, number(settings.get("patience_s"))) + SETTLE_S + _SLACK_S
    answer = run_detached(
        [*own_command(layout), "stop", "--root", str(layout.root), "--settings", "-"],
        settings,
        limit_s,
        "stop-failed",
        "look again at what runs: it may still be at work",
    )
    return Stopped.from_json(answer)
