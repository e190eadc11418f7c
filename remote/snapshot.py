"""The snapshot: what the container looks like now, composed of the parts that the watches keep. Pure.

Its shape is a contract with the console (docs/architecture.md, "The snapshot"). A part that is
not known yet, or could not be read, is None here and takes nothing else with it. Figures that
never stand still are rounded to what an operator can use, so that they cost the link little.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from remote.logtail import Page
from remote.rounding import floor_to, significant, step_of, whole
from remote.runfile import number
from remote.snapshot_datasets import datasets
from remote.snapshot_parts import Parts
from remote.status import GeneratorStatus
from remote.text import clean

LOG_LINES = 12
AUDIT_ENTRIES = 5
PROGRESS_STEP_S = 10
"""When the generator last spoke is sent in steps: alerts about it count in minutes."""


def compose(parts: Parts) -> dict[str, Any]:
    """The whole snapshot, `seq` and `at` excepted."""
    return {
        "root": parts.root,
        "host": _host(parts.host),
        "agent": dict(parts.agent),
        "datasets": datasets(parts),
        "generator": _generator(parts),
        "writers": _writers(parts),
        "engine": _engine(parts.engine),
        "gpus": _gpus(parts.gpus),
        "disk": _disk(parts.disk),
        "lock": _lock(parts.generator),
        "hold": dict(parts.hold) if parts.hold is not None else None,
        "acks": {clean(key, 200): dict(ack) for key, ack in parts.acks.items()},
        "audit": [_audit_entry(entry) for entry in parts.audit],
        "log": _log(parts.log),
        "problems": [clean(problem, 400) for problem in parts.problems],
        "pending": list(parts.pending),
    }


def _generator(parts: Parts) -> dict[str, Any]:
    status = parts.generator
    if status is None:
        return {"verdict": "unknown"}
    found = status.to_json()
    found["argv"] = [clean(word, 300) for word in status.argv]
    if not status.living:
        return found
    said = status.progress
    return {
        **found,
        "paused": said.get("paused") is True,
        "draining": said.get("state") == "stopping",
        "in_work": [clean(name, 120) for name in parts.in_work],
        "rate_tokens_s": significant(number(said.get("rate_tokens_s")), 3),
        "answers": whole(said.get("answers")),
        "retries": whole(said.get("retries")),
        "errors": _errors(said.get("errors")),
        "engine_state": clean(said["engine_state"], 80) if isinstance(said.get("engine_state"), str) else None,
        "progress_at": floor_to(number(said.get("at")), PROGRESS_STEP_S),
    }


def _lock(status: GeneratorStatus | None) -> dict[str, Any]:
    """From the verdict: a living generator holds it, and for anything else the status has looked."""
    if status is None or status.verdict == "unknown":
        return {}
    if status.holder is not None:
        return {"held": True, "holder": clean(status.holder, 200)}
    return {"held": status.living, "holder": f"generator, pid {status.pid}" if status.living and status.pid else None}


def _errors(value: object) -> dict[str, int]:
    named = value.items() if isinstance(value, Mapping) else ()
    found = {clean(kind, 60): whole(count) for kind, count in named}
    return {kind: count for kind, count in found.items() if count}


def _writers(parts: Parts) -> list[dict[str, Any]]:
    alone = {left.process.pid: left.to_json() for left in parts.plan.running} if parts.plan is not None else {}
    found = []
    for writer in parts.writers:
        entry = dict(writer)
        left = alone.get(entry.get("pid", -1), {})
        for key in ("needless_tokens", "needless_s", "needless_gpu_h", "needless_cost"):
            value = left.get(key)
            entry[key] = significant(value) if isinstance(value, (int, float)) else None
        by = left.get("needless_by")
        entry["needless_by"] = {name: significant(count) for name, count in by.items()} if isinstance(by, dict) else {}
        if isinstance(entry["needless_tokens"], float):
            entry["needless_tokens"] = int(entry["needless_tokens"])
        found.append(entry)
    return found


def _engine(engine: Mapping[str, Any] | None) -> dict[str, Any]:
    if engine is None:
        return {"health": "unknown"}
    return {
        **engine,
        "token_usage": step_of(number(engine.get("token_usage")), 0.01),
        "tokens_s": significant(number(engine.get("tokens_s")), 3),
    }


def _gpus(gpus: Mapping[str, Any] | None) -> dict[str, Any]:
    if gpus is None:
        return {}
    return {"rows": [_gpu(row) for row in gpus.get("rows") or ()], "detail": clean(gpus.get("detail") or "", 300)}


def _gpu(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **row,
        "utilisation": step_of(number(row.get("utilisation")), 1),
        "memory_used_bytes": floor_to(number(row.get("memory_used_bytes")), 1 << 28),
        "temperature_c": step_of(number(row.get("temperature_c")), 1),
        "power_w": step_of(number(row.get("power_w")), 5),
    }


def _disk(disk: Mapping[str, Any] | None) -> dict[str, Any]:
    if disk is None:
        return {}
    return {
        "free_bytes": significant(number(disk.get("free_bytes"))),
        "total_bytes": disk.get("total_bytes"),
        "free_inodes": significant(number(disk.get("free_inodes"))),
    }


def _host(host: Mapping[str, Any] | None) -> dict[str, Any]:
    if host is None:
        return {}
    return {**host, "memory_available_bytes": significant(number(host.get("memory_available_bytes")), 2)}


def _audit_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An audit entry without its plan, which is asked for by itself."""
    who = entry.get("who")
    return {
        "at": number(entry.get("at")),
        "who": {key: clean(value, 80) for key, value in who.items()} if isinstance(who, Mapping) else None,
        "action": clean(entry.get("action") or "", 60),
        "outcome": clean(entry.get("outcome") or "", 120),
        "detail": clean(entry.get("detail") or "", 300),
    }


def _log(log: Page | None) -> dict[str, Any]:
    if log is None:
        return {}
    return {"size": log.size, "lines": [clean(line, 300) for line in log.lines[-LOG_LINES:]]}
