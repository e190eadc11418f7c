"""`status --json`: one view as JSON, every key always there, unknown as null. The reference is docs/json.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from console.model import Dataset, Exit, Generator, Gpu, Problem, Snapshot, Writer
from console.view import Alert, Level, Link, View
from remote.exitcodes import CheckCode

VERSION = 1
"""Raised when a key changes its meaning or goes; keys may be added without."""


def status_json(view: View) -> dict[str, Any]:
    """What `status --json` prints, and `watch --json` for each change."""
    snapshot = view.snapshot
    return {
        "version": VERSION,
        "at": snapshot.at if snapshot is not None else None,
        "root": snapshot.root if snapshot is not None else view.options.root,
        "datasets": [dataset_json(view, row) for row in snapshot.datasets] if snapshot is not None else [],
        "totals": _totals(view),
        "link": link_json(view.link),
        "generator": _generator(snapshot.generator) if snapshot is not None else _generator(Generator()),
        "writers": [_writer(writer) for writer in snapshot.writers] if snapshot is not None else [],
        "engine": _engine(snapshot),
        "gpus": _gpus(snapshot),
        "disk": _disk(snapshot),
        "host": _host(snapshot),
        "lock": {"held": snapshot.lock.held, "holder": snapshot.lock.holder or None} if snapshot is not None else None,
        "hold": _hold(snapshot),
        "alerts": [alert_json(alert) for alert in view.alerts],
        "problems": [*snapshot.problems, *snapshot.misread] if snapshot is not None else [],
    }


def check_status(view: View) -> CheckCode:
    """The exit status of `status --check`: 0 ok, 1 warning, 2 critical, 3 unreachable or unreadable.

    An alert that somebody has acknowledged is known already and counts no longer; a note is no fault.
    """
    if view.snapshot is None or not view.link.fresh or all(row.state is None for row in view.snapshot.datasets):
        return CheckCode.UNKNOWN
    return {Level.CRITICAL: CheckCode.CRITICAL, Level.WARNING: CheckCode.WARNING}.get(
        view.worst or Level.NOTE, CheckCode.OK
    )


def dataset_json(view: View, row: Dataset) -> dict[str, Any]:
    """One element of `datasets`: that of `scan --json`, with rate, ETA and what a restart would do."""
    rate = view.rate_of(row)
    eta_s = view.eta_s.get(row.folder)
    return {
        "id": row.id,
        "name": row.folder,
        "title": row.title,
        "kind": row.kind,
        "state": row.state,
        "prompts": row.prompts,
        "responses": row.responses,
        "tokenized": row.tokenized,
        "tokens": row.tokens,
        "budget": row.budget,
        "answered": row.answered,
        "prompts_left": row.prompts_left,
        "finish_reasons": dict(row.finish_reasons),
        "no_eos": row.no_eos,
        "schema": {
            "valid": row.schema.valid,
            "repairable": row.schema.repairable,
            "unusable": row.schema.unusable,
            "duplicates": row.schema.duplicates,
            "orphans": row.schema.orphans,
            "torn": row.schema.torn,
            "problems": [_problem(problem) for problem in row.schema.problems],
        },
        "inference": {"decision": row.inference.decision, "reason": row.inference.reason},
        "tokenization": {"decision": row.tokenization.decision, "reason": row.tokenization.reason},
        "in_work": row.in_work,
        "in_flight": row.in_flight,
        "last_answer_at": row.last_answer_at,
        "rate": round(rate, 1) if rate is not None else None,
        "eta_s": round(eta_s) if eta_s is not None else None,
    }


def link_json(link: Link) -> dict[str, Any]:
    """`link`: how far what is said can be trusted."""
    return {
        "state": str(link.state),
        "target": link.target,
        "age_s": _rounded(link.age_s),
        "skew_s": _rounded(link.skew_s),
        "attempt": link.attempt,
        "code": link.code or None,
        "error": link.error or None,
        "remedy": link.remedy or None,
    }


def alert_json(alert: Alert) -> dict[str, Any]:
    """One element of `alerts`."""
    return {
        "key": alert.key,
        "code": alert.code,
        "level": str(alert.level),
        "since": round(alert.since, 1),
        "sentence": alert.sentence,
        "next_step": alert.next_step or None,
        "press": alert.press or None,
        "dataset": alert.dataset,
        "acked_by": alert.acked_by or None,
    }


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "code": problem.code,
        "count": problem.count,
        "line": problem.line,
        "offset": problem.offset,
        "example": problem.example or None,
    }


def _totals(view: View) -> dict[str, Any]:
    totals = view.totals
    return {
        "tokens": totals.tokens,
        "budget": totals.budget,
        "responses": totals.responses,
        "prompts": totals.prompts,
        "rate": _rounded(totals.rate_tokens_s),
        "eta_s": round(totals.eta_s) if totals.eta_s is not None else None,
        "needless_tokens": totals.needless_tokens,
    }


def _generator(generator: Generator) -> dict[str, Any]:
    return {
        "verdict": generator.verdict,
        "detail": generator.detail or None,
        "run_id": generator.run_id,
        "pid": generator.pid,
        "supervisor_pid": generator.supervisor_pid,
        "argv": list(generator.argv),
        "token_budget": generator.token_budget,
        "since": generator.since,
        "by": generator.by or None,
        "release": generator.release,
        "in_flight": generator.in_flight,
        "in_work": list(generator.in_work),
        "paused": generator.paused,
        "draining": generator.draining,
        "rate": _rounded(generator.rate_tokens_s),
        "retries": generator.retries,
        "errors": dict(generator.errors),
        "engine_state": generator.engine_state,
        "progress_at": generator.progress_at,
        "exit": _exit(generator.exit) if generator.exit is not None else None,
    }


def _exit(end: Exit) -> dict[str, Any]:
    return {
        "code": end.code,
        "signal": end.signal,
        "at": end.at,
        "reason": end.reason or None,
        "detail": end.detail or None,
        "by": end.by or None,
        "oom": end.oom,
    }


def _writer(writer: Writer) -> dict[str, Any]:
    parent = writer.parent
    return {
        "pid": writer.pid,
        "argv": list(writer.argv),
        "files": list(writer.files),
        "datasets": list(writer.datasets),
        "script": writer.script,
        "script_digest": writer.script_digest,
        "script_mtime": writer.script_mtime,
        "knows_token_budget": writer.knows_token_budget,
        "token_budget": writer.token_budget,
        "max_samples": writer.max_samples,
        "since": writer.since,
        "parent": {"pid": parent.pid, "argv": list(parent.argv), "respawns": parent.respawns} if parent else None,
        "needless_tokens": writer.needless_tokens,
        "needless_s": _rounded(writer.needless_s),
        "needless_gpu_h": _rounded(writer.needless_gpu_h),
        "needless_cost": writer.needless_cost,
        "needless_by": dict(writer.needless_by),
    }


def _engine(snapshot: Snapshot | None) -> dict[str, Any] | None:
    if snapshot is None:
        return None
    engine = snapshot.engine
    return {
        "url": engine.url,
        "health": engine.health,
        "detail": engine.detail or None,
        "model_path": engine.model_path,
        "served_name": engine.served_name,
        "expected_model": engine.expected_model,
        "version": engine.version,
        "weight_version": engine.weight_version,
        "context_length": engine.context_length,
        "running": engine.running,
        "queued": engine.queued,
        "token_usage": engine.token_usage,
        "tokens_s": engine.tokens_s,
        "since": engine.since,
    }


def _gpus(snapshot: Snapshot | None) -> dict[str, Any] | None:
    if snapshot is None:
        return None
    return {"rows": [_gpu(gpu) for gpu in snapshot.gpus.rows], "detail": snapshot.gpus.detail or None}


def _gpu(gpu: Gpu) -> dict[str, Any]:
    return {
        "index": gpu.index,
        "name": gpu.name or None,
        "utilisation": gpu.utilisation,
        "memory_used_bytes": gpu.memory_used_bytes,
        "memory_total_bytes": gpu.memory_total_bytes,
        "temperature_c": gpu.temperature_c,
        "power_w": gpu.power_w,
    }


def _disk(snapshot: Snapshot | None) -> dict[str, Any] | None:
    if snapshot is None:
        return None
    disk = snapshot.disk
    return {"free_bytes": disk.free_bytes, "total_bytes": disk.total_bytes, "free_inodes": disk.free_inodes}


def _host(snapshot: Snapshot | None) -> Mapping[str, Any] | None:
    if snapshot is None:
        return None
    host = snapshot.host
    return {
        "hostname": host.hostname,
        "boot_id": host.boot_id,
        "cpus": host.cpus,
        "memory_total_bytes": host.memory_total_bytes,
        "memory_available_bytes": host.memory_available_bytes,
    }


def _hold(snapshot: Snapshot | None) -> dict[str, Any] | None:
    hold = snapshot.hold if snapshot is not None else None
    if hold is None:
        return None
    return {"by": hold.by or None, "reason": hold.reason or None, "at": hold.at, "until": hold.until}


def _rounded(value: float | None) -> float | None:
    return round(value, 2) if value is not None else None
