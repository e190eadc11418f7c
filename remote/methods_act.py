"""The agent's methods that change something. Each is recorded in the audit with who asked for it.

The agent refuses all of them when it was started read-only; see `agent`. What they start goes on
to its end when the link drops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from remote import audit
from remote.child_command import run_child
from remote.choose_python import choose_python
from remote.control import write_control
from remote.detached import program
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.handshake import API_KEY
from remote.identity import Identity
from remote.launch import Order
from remote.launch import launch as launch_run
from remote.layout import Layout
from remote.options import Options, parse_budget
from remote.params import Params
from remote.preflight import run_preflight
from remote.session import Session
from remote.stop import stop_run, stop_stray
from remote.stopped import Stopped, record_stop
from remote.text import clean
from remote.writers import find_writers

RETOKENIZE_LIMIT_S = 6 * 3600.0


def launch(session: Session, params: Params) -> dict[str, Any]:
    """Check once more, then start the generator under its supervisor. Raises what stands in the way."""
    options, by = session.same_root(params.options()), params.by()
    layout = session.layout
    key = params.text("api_key", limit=10_000) if "api_key" in params else None
    if key is not None:
        session.api_key = key
    try:
        _refuse_blocked(session, options, key is not None)
        command = (choose_python(options), "-B", program(layout))
        launched = launch_run(layout, Order(options, command, by, {API_KEY: key} if key is not None else {}))
    except OperatorError as error:
        _record_failure(layout, by, "launch", error, options)
        raise
    finally:
        session.rounds.nudge()
    detail = f"run {launched.run_id}, pid {launched.pid}"
    target = launched.identity.to_json() if launched.identity is not None else None
    plan = params.object("plan")
    return _recorded(
        launched.to_json(),
        lambda: audit.record(layout, by, "launch", "running", detail, target, options.to_json(), plan),
    )


def _refuse_blocked(session: Session, options: Options, key_given: bool) -> None:
    """The preflight again, at the last moment: a writer may have come back, another operator may have been faster."""
    plan, states, around = session.rounds.plan(options, find_writers(session.layout))
    checks = run_preflight(
        session.layout,
        options,
        states,
        plan,
        around,
        python=session.known_python(options) or choose_python(options),
        launching=True,
        api_key_known=key_given or session.api_key is not None or options.api_key_file is not None,
    )
    blockers = [check for check in checks if check.level == "blocker"]
    if blockers:
        first = blockers[0]
        others = f" (and {len(blockers) - 1} more)" if len(blockers) > 1 else ""
        raise OperatorError(f"preflight-{first.check}", f"{first.detail}{others}", first.remedy)


def stop(session: Session, params: Params) -> dict[str, Any]:
    """Stop our generator by `drain`, `now` or `force`; returns when nothing is left, or what is."""
    by, mode = params.by(), params.text("mode", "drain", 20)
    identity = Identity.from_json(params.object("identity"))
    if identity is None and params.object("identity") is not None:
        raise OperatorError("usage", "the identity of the process to stop cannot be read", "look again, then stop it")
    drain_s = params.number("drain_s", session.options.drain_s)
    return _stop(session, by, f"stop-{mode}", identity, lambda: stop_run(session.layout, mode, drain_s, identity, by))


def kill_stray(session: Session, params: Params) -> dict[str, Any]:
    """Kill a process that was not launched by us; exactly the one that was seen."""
    by, identity = params.by(), Identity.from_json(params.object("identity"))
    if identity is None:
        raise OperatorError("usage", "no process was named", "look again, then name the one to be killed")
    return _stop(session, by, "kill", identity, lambda: stop_stray(session.layout, identity, by))


def _stop(
    session: Session, by: str, action: str, identity: Identity | None, work: Callable[[], Stopped]
) -> dict[str, Any]:
    try:
        stopped = work()
    except OperatorError as error:
        _record_failure(session.layout, by, action, error, None, identity)
        raise
    finally:
        session.rounds.nudge()
    said = stopped.to_json()
    said["left"] = [str(one) for one in stopped.left]
    said["respawned"] = ", ".join(str(one.get("pid")) for one in stopped.respawned) or None
    return _recorded(said, lambda: record_stop(session.layout, by, stopped, identity, action))


def control(session: Session, params: Params) -> dict[str, Any]:
    """Change the running generator's budget, or pause and resume it; it follows within a second."""
    by = params.by()
    budget = parse_budget(params.text("token_budget", limit=2000)) if "token_budget" in params else None
    paused = params.flag("paused")
    if budget is None and paused is None:
        raise OperatorError("usage", "nothing was asked to be changed", "give a budget, or pause or resume")
    status = session.rounds.status()
    if not status.living:
        raise OperatorError("not-running", f"no generator runs: {status.verdict}", "start one with this budget")
    try:
        changed = write_control(session.layout, budget, paused, by, status.run_id)
    except OSError as error:
        raise OperatorError(
            "disk",
            f"cannot write {session.layout.control_json}: {error.strerror}",
            "free space on the disk",
            ExitCode.DISK,
        ) from None
    session.rounds.nudge()
    words = [f"budget {budget}"] if budget is not None else []
    words += ["paused" if paused else "resumed"] if paused is not None else []
    target = status.identity.to_json() if status.identity is not None else None
    return _recorded(
        changed.to_json(), lambda: audit.record(session.layout, by, "control", "applied", ", ".join(words), target)
    )


def retokenize(session: Session, params: Params) -> dict[str, Any]:
    """Rebuild tokenized_data.jsonl where it is needed, in a child that finishes even when the link drops.

    Returns what became of each dataset, by folder.
    """
    options, by = session.same_root(params.options()), params.by()
    layout = session.layout
    try:
        said = run_child(choose_python(options), ["retokenize"], options, RETOKENIZE_LIMIT_S)
    except OperatorError as error:
        _record_failure(layout, by, "retokenize", error, options)
        raise
    finally:
        session.rounds.nudge()
    outcomes = {folder: one for folder, one in said.items() if isinstance(one, dict)}
    failed = [folder for folder, one in outcomes.items() if not one.get("ok")]
    outcome = f"failed for {', '.join(failed)}" if failed else "done"
    detail = "; ".join(f"{folder}: {one.get('result')}" for folder, one in outcomes.items())
    # An audit that cannot be written is no reason to hide the outcomes; each is in its meta file too.
    _try_record(lambda: audit.record(layout, by, "retokenize", outcome, detail, None, options.to_json()))
    return outcomes


def note(session: Session, params: Params) -> dict[str, Any]:
    """Leave a note for the next shift."""
    entry = audit.add_note(session.layout, params.by(), params.text("text", limit=audit.MAX_NOTE_CHARS))
    session.rounds.nudge()
    return entry


def hold(session: Session, params: Params) -> dict[str, Any] | None:
    """Order that nothing be started, with a reason; without one, the order is taken back."""
    layout, by = session.layout, params.by()
    try:
        if not params.text("reason", "", 2000).strip():
            audit.clear_hold(layout, by)
            return None
        until = params.number("until") if "until" in params else None
        return audit.write_hold(layout, by, params.text("reason"), until)
    finally:
        session.rounds.nudge()


def ack(session: Session, params: Params) -> dict[str, Any]:
    """Mark an alert as seen, for everybody; with `clear`, take that back."""
    key = params.text("key", limit=200)
    try:
        if params.flag("clear"):
            return audit.unacknowledge(session.layout, key)
        return audit.acknowledge(session.layout, params.by(), key, params.text("note", "", 2000))
    finally:
        session.rounds.nudge()


def add_entry(session: Session, params: Params) -> dict[str, Any]:
    """Add the console's own entry to the audit: what a restart came to as a whole, with its plan."""
    entry = Params(params.object("add") or {})
    return audit.record(
        session.layout,
        entry.by(),
        entry.text("action", limit=60),
        entry.text("outcome", limit=200),
        entry.text("detail", "", 10_000),
        options=entry.object("options"),
        plan=entry.object("plan"),
        console_target=clean(entry.text("target", "", 1000), 200),
        killed=entry.objects("killed"),
    )


def _record_failure(
    layout: Layout,
    by: str,
    action: str,
    error: OperatorError,
    options: Options | None,
    identity: Identity | None = None,
) -> None:
    """Put an attempt that failed into the audit, where there is one already: a failed start makes no `.eagle3`."""
    if not layout.state.is_dir():
        return
    # The error itself is told to whoever asked; the audit's own trouble must not hide it.
    _try_record(
        lambda: audit.record(
            layout,
            by,
            action,
            f"failed: {error.code}",
            error.message,
            identity.to_json() if identity is not None else None,
            options.to_json() if options is not None else None,
        )
    )


def _try_record(record: Callable[[], object]) -> str:
    """Write the entry; returns what kept it from being written, empty when nothing did."""
    try:
        record()
    except OperatorError as error:
        return clean(error, 400)
    return ""


def _recorded(result: Mapping[str, Any], record: Callable[[], object]) -> dict[str, Any]:
    """The result; where the audit could not be written, that is said beside it: what was done stays done."""
    fault = _try_record(record)
    return {**result, "audit_error": fault} if fault else dict(result)
