"""What the plan said and what was done, dataset by dataset: `report TARGET`.

In: the audit entry of a restart or launch, which holds the whole plan that was confirmed, and the
datasets as they are now (a snapshot's or `scan --json`'s rows). Pure; the clock is a parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console import text
from console.styled import Span, TraceLine
from remote.errors import OperatorError
from remote.text import clean

VERSION = 1
ACTIONS = ("restart", "launch")
WORKS = frozenset({"resume", "start"})
FINISHED = frozenset({"budget-met", "samples-met", "exhausted"})

_MARKS = {"done": ("✓", "ok"), "as planned": ("·", "dim"), "under way": ("…", "")}


@dataclass(frozen=True)
class DatasetReport:
    """One dataset: what was planned, what is there now, and the verdict in a word and a sentence.

    `verdict`: done, as planned (nothing was to be done and nothing was), under way, short, or unexpected.
    """

    folder: str
    id: str
    title: str
    planned: str
    reason: str
    verdict: str
    detail: str
    planned_answers: int
    planned_tokens: int
    made_answers: int | None
    made_tokens: int | None
    tokens: int | None
    budget: int | None
    tokenization: str

    def to_json(self) -> dict[str, Any]:
        """One of `datasets` in `report --json`."""
        values = dict(self.__dict__)
        return {"name": values.pop("folder"), **values}


@dataclass(frozen=True)
class Report:
    """The whole: whose action, when, and every dataset of its plan."""

    at: float | None
    who: str
    action: str
    run_id: str | None
    running: bool
    took_s: float | None
    expected_s: float | None
    datasets: tuple[DatasetReport, ...]

    @property
    def good(self) -> bool:
        """Whether nothing fell short and nothing unexpected happened."""
        return all(row.verdict not in ("short", "unexpected") for row in self.datasets)

    def to_json(self) -> dict[str, Any]:
        """`report --json`; docs/json.md is the reference."""
        return {
            "version": VERSION,
            "at": self.at,
            "who": self.who,
            "action": self.action,
            "run_id": self.run_id,
            "running": self.running,
            "took_s": self.took_s,
            "expected_s": self.expected_s,
            "good": self.good,
            "datasets": [row.to_json() for row in self.datasets],
        }


def planned_entry(entries: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The newest entry, of entries newest first, that launched something with a plan. Raises OperatorError."""
    for entry in entries:
        if entry.get("action") in ACTIONS and isinstance(entry.get("plan"), Mapping):
            return entry
    raise OperatorError(
        "no-report",
        "the container's audit holds no restart with its plan",
        "there is something to report after: eagle3-console restart TARGET",
    )


def make_report(
    entry: Mapping[str, Any],
    datasets: Mapping[str, Mapping[str, Any]] | Sequence[Mapping[str, Any]],
    generator: Mapping[str, Any],
    now: float,
) -> Report:
    """Compare the plan in an audit entry with the datasets of now; `generator` is the snapshot's."""
    plan = _object(entry, "plan")
    present = _by_folder(datasets)
    running = generator.get("verdict") in ("starting", "running", "running-unsupervised")
    began, who = _number(entry, "at"), _object(entry, "who")
    ended = _number(_object(generator, "exit"), "at")
    took = (now if running or ended is None else ended) - began if began is not None else None
    return Report(
        at=began,
        who=clean("@".join(str(who[key]) for key in ("user", "host") if who.get(key)) or "somebody", 120),
        action=clean(entry.get("action") or "", 40),
        run_id=clean(generator["run_id"], 60) if generator.get("run_id") else None,
        running=running,
        took_s=max(0.0, took) if took is not None else None,
        expected_s=_number(_object(plan, "totals"), "expected_s"),
        datasets=tuple(
            _dataset(row, present.get(str(row.get("name"))), running)
            for row in plan.get("datasets", ())
            if isinstance(row, Mapping)
        ),
    )


def _dataset(planned: Mapping[str, Any], now: Mapping[str, Any] | None, running: bool) -> DatasetReport:
    inference = _object(planned, "inference")
    decision = str(inference.get("decision") or "")
    state = str(now.get("state") or "") if now is not None else "missing"
    tokens = _count(now, "tokens")
    made_tokens = _difference(tokens, _count(inference, "existing_tokens"))
    made_answers = _difference(_count(now, "responses"), _count(inference, "existing_responses"))
    tokenization = _tokenization(planned, now, running)
    if state == "missing":
        gone = inference.get("reason") not in ("missing", "not-selected")
        verdict, detail = ("unexpected", "its folder is gone") if gone else ("as planned", "not there, as before")
    elif (made_answers or 0) < 0:
        verdict, detail = "unexpected", f"{text.plural(-(made_answers or 0), 'record')} fewer than before"
    elif decision not in WORKS:
        verdict, detail = _untouched(decision, made_answers, tokenization, running)
    else:
        verdict, detail = _worked(inference, state, tokens, made_answers, made_tokens, tokenization, running)
        detail += _fewer_prompts(inference, now)
    return DatasetReport(
        folder=clean(planned.get("name") or "", 120),
        id=clean(planned.get("id") or "", 20),
        title=clean(planned.get("title") or "", 60),
        planned=clean(decision, 20),
        reason=clean(inference.get("reason") or "", 40),
        verdict=verdict,
        detail=detail,
        planned_answers=_count(inference, "expected_responses") or 0,
        planned_tokens=_count(inference, "expected_tokens") or 0,
        made_answers=made_answers,
        made_tokens=made_tokens,
        tokens=tokens,
        budget=_count(inference, "budget"),
        tokenization=tokenization,
    )


def _fewer_prompts(inference: Mapping[str, Any], now: Mapping[str, Any] | None) -> str:
    """Says that prompts were taken away since the plan: then it could not come to what was planned."""
    answered, left = _count(inference, "answered"), _count(inference, "prompts_left")
    prompts = _count(now, "prompts")
    # Prompts set aside are in neither number, so only fewer than both together is certain.
    if answered is None or left is None or prompts is None or prompts >= answered + left:
        return ""
    return f"; prompts.jsonl has {text.plural(prompts, 'prompt')} now, {answered + left:,} when it was planned"


def _untouched(decision: str, made: int | None, tokenization: str, running: bool) -> tuple[str, str]:
    why = "left out of the run" if decision == "blocked" else "nothing was to be generated"
    if made:
        return "unexpected", f"{why}, and {text.plural(made, 'record')} appeared"
    if tokenization == "missing":
        return ("under way" if running else "short"), "still to be tokenized"
    return "as planned", why + (" and it is tokenized" if tokenization == "done" else "")


def _worked(
    inference: Mapping[str, Any],
    state: str,
    tokens: int | None,
    made: int | None,
    made_tokens: int | None,
    tokenization: str,
    running: bool,
) -> tuple[str, str]:
    budget = _count(inference, "budget") or 0
    amount = f"{text.count(made)} answers, {text.tokens(made_tokens)} tokens new"
    met = state in FINISHED or (budget > 0 and tokens is not None and tokens >= budget)
    if not met:
        missing = f", {text.tokens(budget - tokens)} to go" if budget and tokens is not None and tokens < budget else ""
        return ("under way" if running else "short"), f"{amount}{missing}"
    if tokenization == "missing":
        return ("under way" if running else "short"), f"{amount}; still to be tokenized"
    if budget and tokens is not None:
        if tokens < budget:
            return "done", f"{amount}; its prompts gave {text.percent(tokens, budget)} of the budget"
        return "done", f"{amount}; {text.tokens(tokens - budget)} beyond the budget"
    return "done", amount


def _tokenization(planned: Mapping[str, Any], now: Mapping[str, Any] | None, running: bool) -> str:
    """`not planned`, `done`, `missing`, or `unknown` where nothing tells."""
    if _object(planned, "tokenization").get("decision") not in ("rebuild", "after-inference"):
        return "not planned"
    decision = _object(now or {}, "tokenization").get("decision")
    if decision in ("skip", "none"):
        return "done"
    if decision in ("rebuild", "after-inference"):
        return "missing"
    return "unknown"


def report_lines(report: Report, width: int = 120) -> list[TraceLine]:
    """The report as lines for a terminal or a pipe."""
    state = "it still runs" if report.running else "it has ended"
    head = (
        f" {report.action} by {report.who} at {text.clock(report.at)} UTC, {state} after {text.duration(report.took_s)}"
    )
    if report.expected_s is not None:
        head += f" (about {text.duration(report.expected_s)} were expected)"
    lines = [TraceLine((Span(part, "title"),)) for part in text.wrap(head, width)]
    lines.append(TraceLine())
    for row in report.datasets:
        mark, style = _MARKS.get(row.verdict, ("✗", "bad"))
        lead = f" {mark} {text.fit(row.id, 4)}{text.fit(row.title, 17)}{row.planned:<9}"
        plan = f"~{text.about_tokens(row.planned_tokens)} planned; " if row.planned in WORKS else ""
        body = f"{row.verdict}: {plan}{row.detail}"
        level = "bad" if style == "bad" else ""
        for number, part in enumerate(text.wrap(body, max(20, width - text.cells(lead)))):
            before = Span(lead, style) if number == 0 else Span(" " * text.cells(lead))
            lines.append(TraceLine((before, Span(part, level)), level, row.folder))
    return lines


def _by_folder(
    datasets: Mapping[str, Mapping[str, Any]] | Sequence[Mapping[str, Any]],
) -> dict[str, Mapping[str, Any]]:
    if isinstance(datasets, Mapping):
        return {str(folder): row for folder, row in datasets.items() if isinstance(row, Mapping)}
    return {str(row.get("name")): row for row in datasets if isinstance(row, Mapping)}


def _object(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, Mapping) else {}


def _number(value: Mapping[str, Any], key: str) -> float | None:
    found = value.get(key)
    return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else None


def _count(value: Mapping[str, Any] | None, key: str) -> int | None:
    found = _number(value, key) if value is not None else None
    return None if found is None else int(found)


def _difference(now: int | None, before: int | None) -> int | None:
    """What was added; nothing known before counts as nothing there."""
    return None if now is None else now - (before or 0)
