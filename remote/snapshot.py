"""The snapshot: what the container looks like now, composed of the parts that the watches keep. Pure.

Its shape is a contract with the console (docs/architecture.md, "The snapshot"). A part that is
not known yet, or could not be read, is None here and takes nothing else with it. Figures that
never stand still are rounded to what an operator can use, so that they cost the link little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from remote.layout import DECLARED, RESPONSES, dataset_id, dataset_title
from remote.logtail import Page
from remote.options import Options
from remote.plan import DatasetPlan, Plan, run_order
from remote.rounding import floor_to, significant, step_of
from remote.runfile import number
from remote.scan import DatasetScan, RootScan
from remote.state import dataset_state
from remote.status import GeneratorStatus
from remote.text import clean

LOG_LINES = 12
AUDIT_ENTRIES = 5
PROGRESS_STEP_S = 10
"""When the generator last spoke is sent in steps: alerts about it count in minutes."""


@dataclass(frozen=True)
class Parts:
    """What is known. `writers` are JSON as `find_writers` gives it; `hold`, `acks`, `audit` as `remote.audit` does."""

    root: str
    options: Options
    agent: Mapping[str, Any]
    scan: RootScan | None = None
    plan: Plan | None = None
    generator: GeneratorStatus | None = None
    paused: bool | None = None
    writers: Sequence[Mapping[str, Any]] = ()
    engine: Mapping[str, Any] | None = None
    gpus: Mapping[str, Any] | None = None
    host: Mapping[str, Any] | None = None
    disk: Mapping[str, Any] | None = None
    hold: Mapping[str, Any] | None = None
    acks: Mapping[str, Any] = field(default_factory=dict)
    audit: Sequence[Mapping[str, Any]] = ()
    log: Page | None = None
    thinking: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Per folder, how many of the latest answers were looked at, and how many lack the end of thinking."""
    problems: Sequence[str] = ()
    pending: Sequence[str] = ()
    """Parts at their first look: what is unknown because of them is not missing."""


def compose(parts: Parts) -> dict[str, Any]:
    """The whole snapshot, `seq` and `at` excepted."""
    return {
        "root": parts.root,
        "host": _host(parts.host),
        "agent": dict(parts.agent),
        "datasets": _datasets(parts),
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


# -- datasets -----------------------------------------------------------------


def _datasets(parts: Parts) -> dict[str, Any]:
    scans = {scan.folder: scan for scan in parts.scan.datasets} if parts.scan is not None else {}
    plans = {plan.folder: plan for plan in parts.plan.datasets} if parts.plan is not None else {}
    # The declared eight are always there: a table that blanks cannot be told from a link that is lost.
    folders = sorted({*DECLARED, *scans}, key=run_order)
    return {
        clean(folder, 120): _row(parts, folder, order, scans.get(folder), plans.get(folder))
        for order, folder in enumerate(folders)
    }


def _row(parts: Parts, folder: str, order: int, scan: DatasetScan | None, plan: DatasetPlan | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": clean(dataset_id(folder), 60),
        "title": clean(dataset_title(folder), 60),
        "order": order,
        "budget": parts.options.token_budget.of(folder),
    }
    if scan is None:
        return row
    said = _said(parts, folder)
    growing = scan.growing_since is not None
    in_work = folder in _in_work(parts) or (growing and not _generates(parts))
    changed_at, responses_at = _changed_at(scan)
    answer_at = number(said.get("last_answer_at")) or (responses_at if scan.responses else None)
    sampled, no_think = parts.thinking.get(folder, (None, None))
    row |= {
        "kind": scan.kind,
        "state": _state(parts, scan, plan, in_work, said),
        "prompts": scan.prompts,
        "responses": scan.responses,
        "tokenized": scan.tokenized,
        "tokens": scan.tokens,
        "answered": scan.answered,
        "no_eos": scan.no_eos,
        "trailing_assistant": scan.trailing_assistant,
        "finish_reasons": {clean(name, 40): count for name, count in scan.finish_reasons.items()},
        "schema": _schema(scan),
        "in_work": in_work,
        "growing": growing,
        "in_flight": _whole(said.get("in_flight")),
        "rate_tokens_s": significant(number(said.get("rate_tokens_s")), 2),
        "last_answer_at": floor_to(answer_at, 1),
        "files_changed_at": _unless_same(floor_to(changed_at, 1), floor_to(answer_at, 1)),
        "prompt_mismatches": _prompt_mismatches(plan),
        "sampled": sampled,
        "no_think": no_think,
    }
    if plan is not None:
        row |= {
            "prompts_left": plan.prompts_left,
            "inference": {"decision": plan.decision, "reason": plan.reason},
            "tokenization": {"decision": plan.tokenization, "reason": plan.tokenization_reason},
        }
    return row


def _state(parts: Parts, scan: DatasetScan, plan: DatasetPlan | None, in_work: bool, said: Mapping[str, Any]) -> str:
    prompts, answered = scan.prompts, scan.answered or 0
    set_aside = max(0, prompts - answered - plan.prompts_left) if plan is not None and prompts is not None else 0
    return dataset_state(
        parts.options,
        scan.folder,
        kind=scan.kind,
        exists=scan.exists,
        readable=scan.readable,
        prompts=prompts,
        tokens=scan.tokens or 0,
        answered=answered,
        set_aside=set_aside,
        tokenizing=scan.folder in _tokenizing(parts),
        running=in_work,
        draining=in_work and _drains(said),
    )


def _drains(said: Mapping[str, Any]) -> bool:
    """Whether the generator only waits for what this dataset has in flight: nothing more is admitted for it."""
    if not said.get("in_flight"):
        return False
    budget, expected, left = number(said.get("budget")), number(said.get("expected_tokens")), number(said.get("left"))
    return left == 0 or (bool(budget) and expected is not None and budget is not None and expected >= budget)


def _schema(scan: DatasetScan) -> dict[str, Any]:
    counts = scan.classes
    return {
        "valid": counts.valid,
        "repairable": counts.repairable,
        "unusable": counts.unusable,
        "duplicates": counts.duplicates,
        "orphans": counts.orphans,
        "torn": counts.torn,
        "problems": [problem.to_json() for problem in scan.problems],
    }


def _changed_at(scan: DatasetScan) -> tuple[float | None, float | None]:
    """When the newest of its files, and when its responses changed."""
    times = {facts.name: facts.mtime_s for facts in scan.files if facts.mtime_s is not None}
    return max(times.values(), default=None), times.get(RESPONSES)


def _unless_same(changed_at: int | None, answer_at: int | None) -> int | None:
    """Nothing when both are within two seconds of one another: a running dataset would pay for both at each answer."""
    if changed_at is None or (answer_at is not None and abs(changed_at - answer_at) <= 2):
        return None
    return changed_at


def _prompt_mismatches(plan: DatasetPlan | None) -> int | None:
    """Answers that the last tokenizing left out because their prompt is rendered differently now."""
    left_out = plan.trainable.get("left_out") if plan is not None and plan.trainable is not None else None
    return _whole(left_out.get("prompt-mismatch", 0)) if isinstance(left_out, Mapping) else None


def _tokenizing(parts: Parts) -> Sequence[str]:
    """What the generator tokenizes right now, beside answering other datasets."""
    named = parts.generator.progress.get("tokenizing") if _generates(parts) and parts.generator else None
    return [named] if isinstance(named, str) else []


def _in_work(parts: Parts) -> Sequence[str]:
    named = parts.generator.progress.get("in_work") if _generates(parts) and parts.generator else None
    return [str(name) for name in named] if isinstance(named, list) else []


def _generates(parts: Parts) -> bool:
    return parts.generator is not None and parts.generator.living


def _said(parts: Parts, folder: str) -> Mapping[str, Any]:
    """What the generator says of one dataset in progress.json; empty when it says nothing or does not run."""
    datasets = parts.generator.progress.get("datasets") if _generates(parts) and parts.generator else None
    row = datasets.get(folder) if isinstance(datasets, Mapping) else None
    return row if isinstance(row, Mapping) else {}


# -- processes ----------------------------------------------------------------


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
        "paused": said.get("paused") is True or parts.paused is True,
        "draining": said.get("state") == "stopping",
        "in_work": [clean(name, 120) for name in _in_work(parts)],
        "rate_tokens_s": significant(number(said.get("rate_tokens_s")), 3),
        "answers": _whole(said.get("answers")),
        "retries": _whole(said.get("retries")),
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
    found = {clean(kind, 60): _whole(count) for kind, count in named}
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


# -- the rest -----------------------------------------------------------------


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


def _whole(value: object) -> int | None:
    found = number(value)
    return None if found is None else int(found)
