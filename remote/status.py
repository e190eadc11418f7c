"""What became of the run: one verdict from `run.json`, `exit.json`, the processes and the lock.

Nothing is inferred from a name or a bare pid. Verdicts (DESIGN §4, `status --json`):
`never-started`, `starting`, `running`, `running-unsupervised` (the generator lives, its
supervisor does not, or it was started by hand), `held-by-stray` (nothing of the run lives and
yet the lock is held), `exited` (with its record), `lost` (no record: killed, or the container
was restarted), `unknown` (`/proc` or the files cannot be read).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from remote import procfs
from remote.control import read_control
from remote.errors import OperatorError
from remote.identity import Identity, alive, same_world
from remote.layout import Layout
from remote.lock import Holder, holder, holding_pids
from remote.masking import masked
from remote.runfile import Run, number, read_exit, read_progress, read_run
from remote.text import clean

LIVING = frozenset({"starting", "running", "running-unsupervised"})


@dataclass(frozen=True)
class GeneratorStatus:
    """The generator as far as this container can tell; None is unknown. Times in Unix seconds."""

    verdict: str
    detail: str = ""
    run_id: str | None = None
    pid: int | None = None
    supervisor_pid: int | None = None
    identity: Identity | None = None
    argv: tuple[str, ...] = ()
    token_budget: str | None = None
    since: float | None = None
    by: str = ""
    release: str | None = None
    in_flight: int | None = None
    exit: Mapping[str, Any] | None = None
    holder: Holder | None = None
    """Who holds the lock, looked up only where no process of the run explains it."""
    run: Run | None = field(default=None, repr=False)
    progress: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def living(self) -> bool:
        """Whether a generator of ours runs."""
        return self.verdict in LIVING

    def to_json(self) -> dict[str, Any]:
        """`generator` of `status --json`."""
        return {
            "verdict": self.verdict,
            "detail": self.detail,
            "run_id": self.run_id,
            "pid": self.pid,
            "supervisor_pid": self.supervisor_pid,
            "identity": self.identity.to_json() if self.identity else None,
            "argv": list(self.argv),
            "token_budget": self.token_budget,
            "since": self.since,
            "by": self.by,
            "release": self.release,
            "in_flight": self.in_flight,
            "exit": dict(self.exit) if self.exit is not None else None,
        }


def generator_status(layout: Layout) -> GeneratorStatus:
    """Look once. Never raises: what cannot be read makes the verdict `unknown`, with the reason in `detail`."""
    if not procfs.readable():
        return GeneratorStatus("unknown", "/proc cannot be read here, so no process can be identified")
    try:
        run = read_run(layout)
    except OperatorError as error:
        return _without_run(layout, GeneratorStatus("unknown", error.message))
    if run is None:
        return _without_run(layout, GeneratorStatus("never-started"))
    try:
        ended = read_exit(layout, run.run_id)
        unreadable = ""
    except OperatorError as error:
        ended, unreadable = None, error.message
    supervised, generating = alive(run.supervisor), alive(run.generator)
    if generating:
        if not supervised:
            verdict, detail = "running-unsupervised", "its supervisor is gone; the generator runs on"
        elif run.ready_at is None:
            verdict, detail = "starting", "the generator has not said yet that it is ready"
        else:
            verdict, detail = "running", ""
        return _of_run(layout, run, verdict, detail)
    if supervised and run.generator is None and ended is None:
        return _of_run(layout, run, "starting", "the supervisor is starting the generator")
    if supervised:
        detail = "its supervisor is clearing up after it"
        return _of_run(layout, run, "exited", detail, ended)
    by_lock = _by_lock(layout, run)
    if by_lock is not None:
        return by_lock
    if ended is not None:
        return _of_run(layout, run, "exited", _how(ended), ended)
    if unreadable:
        return _of_run(layout, run, "unknown", unreadable)
    return _of_run(layout, run, "lost", _why_lost(run))


def _without_run(layout: Layout, otherwise: GeneratorStatus) -> GeneratorStatus:
    return _by_lock(layout, None) or otherwise


def _by_lock(layout: Layout, run: Run | None) -> GeneratorStatus | None:
    """A verdict from the lock, when something holds it that is not this run's living generator."""
    held_by = holder(layout)
    if held_by is None:
        return None
    if held_by.purpose == "generate" and alive(held_by.identity):
        progress = read_progress(layout, None)
        identity = held_by.identity
        assert identity is not None
        return GeneratorStatus(
            "running-unsupervised",
            "started by hand, without a supervisor",
            run_id=_text(progress.get("run")),
            pid=identity.pid,
            identity=identity,
            argv=_argv(procfs.read_argv(identity.pid)),
            token_budget=_live_budget(layout, None),
            since=held_by.since,
            by=held_by.by,
            in_flight=_whole(progress.get("in_flight")),
            holder=held_by,
            progress=progress,
        )
    if run is not None and run.supervisor is not None and not same_world(run.supervisor) and not held_by.pids:
        detail = f"the lock is held by {held_by}, which cannot be seen from here"
    else:
        detail = f"the lock is held by {held_by}"
    stray = GeneratorStatus("held-by-stray", detail, holder=held_by)
    if run is None:
        return stray
    return _of_run(layout, run, "held-by-stray", detail, holder_=held_by)


def _of_run(
    layout: Layout,
    run: Run,
    verdict: str,
    detail: str,
    ended: Mapping[str, Any] | None = None,
    holder_: Holder | None = None,
) -> GeneratorStatus:
    living = verdict in LIVING
    progress = read_progress(layout, run.run_id)
    return GeneratorStatus(
        verdict,
        detail,
        run_id=run.run_id,
        pid=run.generator.pid if run.generator and living else None,
        supervisor_pid=run.supervisor.pid if alive(run.supervisor) and run.supervisor else None,
        identity=run.generator,
        argv=_argv(run.argv),
        token_budget=_live_budget(layout, run),
        since=run.at,
        by=clean(run.by, 80),
        release=run.release or None,
        in_flight=_whole(progress.get("in_flight")) if living else None,
        exit=ended,
        holder=holder_,
        run=run,
        progress=progress,
    )


def _live_budget(layout: Layout, run: Run | None) -> str | None:
    """The budget in force: a running generator's can have been changed by `control.json`."""
    budget = run.options.token_budget if run is not None else None
    try:
        control = read_control(layout, run.run_id if run is not None else None)
    except OperatorError:
        control = None
    if control is not None and control.token_budget is not None:
        budget = control.token_budget
    return None if budget is None else str(budget)


def _why_lost(run: Run) -> str:
    known = run.generator or run.supervisor
    if known is None:
        return "the launch ended before anything was started"
    if not same_world(known):
        return "the container was restarted: its processes are gone, its files are here"
    return "it ended without an exit record: it and its supervisor were killed"


def _how(ended: Mapping[str, Any]) -> str:
    return clean(ended.get("detail") or ended.get("reason") or "", 300)


def _argv(words: Any) -> tuple[str, ...]:
    return tuple(clean(word, 300) for word in masked([str(word) for word in words]))


def _text(value: object) -> str | None:
    return clean(value, 80) if isinstance(value, str) else None


def _whole(value: object) -> int | None:
    found = number(value)
    return None if found is None else int(found)


def lock_json(layout: Layout, status: GeneratorStatus) -> dict[str, Any]:
    """`lock` of the snapshot: held and by whom; `held` is None when that cannot be told."""
    if status.living and status.identity is not None:
        pids = holding_pids(layout)
        return {"held": bool(pids) or None, "holder": {"pid": status.pid, "purpose": "run", "by": status.by}}
    found = status.holder if status.holder is not None else holder(layout)
    return {"held": found is not None, "holder": found.to_json() if found is not None else None}
