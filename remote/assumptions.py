"""The four things that were assumed on the day of the incident, each checked, with its evidence (DOMAIN).

They are rows of the trace: `{"check", "holds", "detail"}`, where `holds` is None when nothing
here can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from remote import figures
from remote.facts import DatasetState, RecordCounts
from remote.layout import dataset_id
from remote.options import Budget, Options
from remote.plan import DatasetPlan, plan_dataset
from remote.rules import FAULTY_SHARE
from remote.tokenization import WOULD_LOSE


def check_assumptions(
    states: Sequence[DatasetState], plans: Sequence[DatasetPlan], release: str | None
) -> tuple[dict[str, Any], ...]:
    """The four checks, for the datasets of a plan."""
    return (_budget_first(release), _same_tokenizer(states), _same_schema(states, plans), _nobody_else(states))


_TOKENIZED = {
    "no-meta": "unrecorded",
    "fingerprint-changed": "changed",
    "options-changed": "changed",
    WOULD_LOSE: "changed",
    "up-to-date": "same",
    "new-records": "same",
    "inputs-changed": "same",
    "output-changed": "same",
}
"""What the reason of a tokenization's decision says of the way the present rows were made."""


def _row(check: str, holds: bool | None, detail: str) -> dict[str, Any]:
    return {"check": check, "holds": holds, "detail": detail}


def _budget_first(release: str | None) -> dict[str, Any]:
    """Ask the code that runs, with states in which the two tests would disagree."""
    folder = "B2_opencodeinstruct"
    records = RecordCounts(valid=30)
    met_by_tokens = DatasetState(folder, prompts=100, responses=30, records=records, tokens=2000, answered=30)
    met_by_count = DatasetState(folder, prompts=30, responses=30, records=records, tokens=2000, answered=30)
    lacks_tokens = DatasetState(folder, prompts=100, responses=30, records=records, tokens=500, answered=30)
    options = Options(token_budget=Budget(1000), max_samples=None)
    answers = [
        (plan.decision, plan.reason)
        for plan in (
            plan_dataset(met_by_tokens, options),
            plan_dataset(met_by_count, Options(token_budget=Budget(1000), max_samples=20)),
            plan_dataset(lacks_tokens, options),
        )
    ]
    holds = answers == [("skip", "budget-met"), ("skip", "budget-met"), ("resume", "partial")]
    said = ", ".join(reason for _, reason in answers)
    code = f"release {release}" if release else "this code"
    return _row("budget-first", holds, f"budget before samples: {code} was asked with three states, it says {said}")


def _same_tokenizer(states: Sequence[DatasetState]) -> dict[str, Any]:
    """Retokenizing gives the same bytes where the fingerprint is that of the last time."""
    by_kind: dict[str, list[str]] = {"same": [], "changed": [], "unrecorded": []}
    for state in states:
        kind = _TOKENIZED.get(state.tokenization.reason) if state.tokenized else None
        if kind is not None:
            by_kind[kind].append(dataset_id(state.folder))
    same, changed, unrecorded = by_kind["same"], by_kind["changed"], by_kind["unrecorded"]
    if changed:
        return _row(
            "same-tokenizer", False, f"another tokenizer, template, library or option than {', '.join(changed)}'s"
        )
    if unrecorded:
        also = f"; same as {', '.join(same)}'s" if same else ""
        return _row(
            "same-tokenizer",
            None,
            f"no record of how {', '.join(unrecorded)} was tokenized: rebuilt and compared{also}",
        )
    if same:
        return _row("same-tokenizer", True, f"same tokenizer, template and options as {', '.join(same)}'s")
    return _row("same-tokenizer", True, "nothing has been tokenized yet, so nothing can differ")


def _same_schema(states: Sequence[DatasetState], plans: Sequence[DatasetPlan]) -> dict[str, Any]:
    """Not the first record: every one, types and ranges too."""
    total = sum(state.responses or 0 for state in states)
    unusable = sum(state.records.unusable for state in states)
    unread = [dataset_id(state.folder) for state in states if state.exists and not state.readable]
    if unread:
        return _row("same-schema", None, f"{', '.join(unread)} cannot be read")
    if not unusable:
        return _row("same-schema", True, f"every record's types and ranges: {figures.plural(total, 'record')} checked")
    blocked = [plan.id for plan in plans if plan.reason == "faulty"]
    where = f", {', '.join(blocked)} blocked" if blocked else ""
    holds = False if blocked or unusable > total * FAULTY_SHARE else None
    return _row(
        "same-schema",
        holds,
        f"{unusable:,} of {figures.plural(total, 'record')} unusable ({figures.percent(unusable, total)}){where}",
    )


def _nobody_else(states: Sequence[DatasetState]) -> dict[str, Any]:
    strangers = sorted({process.pid for state in states for process in state.processes if not process.ours})
    if strangers:
        return _row("nobody-else", False, f"another writer: {', '.join(f'pid {pid}' for pid in strangers)}")
    ours = any(process.ours for state in states for process in state.processes)
    growing = [dataset_id(state.folder) for state in states if state.growing]
    if growing and not ours:
        return _row("nobody-else", False, f"{', '.join(growing)} grows, and no process is known that writes it")
    torn = [dataset_id(state.folder) for state in states if state.records.torn]
    if torn:
        return _row(
            "nobody-else", True, f"nobody else writes; {', '.join(torn)} ends in a torn line, which is kept aside"
        )
    return _row("nobody-else", True, "nobody else writes these files; every line of them is whole")
