"""The snapshot's datasets: what the scan counts, what a restart would do, what the generator says. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from remote.layout import DECLARED, RESPONSES, dataset_id, dataset_title
from remote.plan import DatasetPlan, run_order
from remote.rounding import floor_to, significant, whole
from remote.runfile import number
from remote.scan import DatasetScan
from remote.snapshot_parts import Parts
from remote.state import dataset_state
from remote.text import clean


def datasets(parts: Parts) -> dict[str, Any]:
    """The rows by folder; before the first scan the declared eight, with nothing known of them."""
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
    # Minutes may pass between two long answers of a slow script: a file that it holds open is being written all the same.
    in_work = folder in parts.in_work or folder in parts.written_by_others or (growing and not parts.running)
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
        "no_eos": scan.no_eos,
        "trailing_assistant": scan.trailing_assistant,
        "finish_reasons": {clean(name, 40): count for name, count in scan.finish_reasons.items()},
        "schema": {**scan.classes.to_json(), "problems": [problem.to_json() for problem in scan.problems]},
        "in_work": in_work,
        "growing": growing,
        "in_flight": whole(said.get("in_flight")),
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
    return whole(left_out.get("prompt-mismatch", 0)) if isinstance(left_out, Mapping) else None


def _tokenizing(parts: Parts) -> Sequence[str]:
    """What the generator tokenizes right now, beside answering other datasets."""
    named = parts.progress.get("tokenizing")
    return [named] if isinstance(named, str) else []


def _said(parts: Parts, folder: str) -> Mapping[str, Any]:
    """What the generator says of one dataset in progress.json; empty when it says nothing or does not run."""
    datasets = parts.progress.get("datasets")
    row = datasets.get(folder) if isinstance(datasets, Mapping) else None
    return row if isinstance(row, Mapping) else {}
