"""`status --json`: one view as JSON, every key always there, unknown as null. The reference is docs/json.md."""

from __future__ import annotations

from typing import Any

from console.model import Dataset, Generator, Snapshot, Writer
from console.shape import told
from console.view import Alert, Level, Link, View
from remote.exitcodes import CheckCode

VERSION = 1
"""Raised when a key changes its meaning or goes; keys may be added without."""

_UNSAID = "order trailing_assistant prompt_mismatches sampled no_think rate_tokens_s files_changed_at growing"
"""Of a dataset, what only the screens and the alerts go by."""


def status_json(view: View) -> dict[str, Any]:
    """What `status --json` prints, and `watch --json` for each change."""
    snapshot = view.snapshot
    looked = snapshot is not None
    seen = snapshot or Snapshot(root=view.options.root)
    return {
        "version": VERSION,
        "at": seen.at if looked else None,
        "root": seen.root,
        "datasets": [dataset_json(view, row) for row in seen.datasets],
        "totals": _totals(view),
        "link": link_json(view.link),
        "generator": _generator(seen.generator),
        "writers": [_writer(writer) for writer in seen.writers],
        "engine": told(seen.engine) if looked else None,
        "gpus": told(seen.gpus) if looked else None,
        "disk": told(seen.disk) if looked else None,
        "host": told(seen.host) if looked else None,
        "lock": told(seen.lock) if looked else None,
        "hold": told(seen.hold) if seen.hold is not None else None,
        "alerts": [alert_json(alert) for alert in view.alerts],
        "problems": [*seen.problems, *seen.misread],
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
        **told(row, without=f"id folder {_UNSAID}"),
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
    row = told(generator, without="identity answers requests", renamed={"rate_tokens_s": "rate"})
    return {**row, "rate": _rounded(generator.rate_tokens_s)}


def _writer(writer: Writer) -> dict[str, Any]:
    return {
        **told(writer, without="identity cwd"),
        "needless_s": _rounded(writer.needless_s),
        "needless_gpu_h": _rounded(writer.needless_gpu_h),
    }


def _rounded(value: float | None) -> float | None:
    return round(value, 2) if value is not None else None
