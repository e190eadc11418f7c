"""The trace as lines of styled text: what `trace` prints, `restart` asks about, and the trace screen colours.

In: the object that `plan --json` gives. Out: `TraceLine`s that fit a width. Every style is also
told by a word or a mark, so that the plain text of a pipe says the same. Outside text is cleaned
here once more: a plan may come from a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from console import text
from console.styled import ASCII, NAME_WIDTH, Span, TraceLine, flow, marked, number, object_of, plain, rows, whole
from console.trace_running import launch_flags, running_lines
from remote.text import clean

__all__ = ["ASCII", "Span", "TraceLine", "amount_words", "dataset_lines", "plain", "preflight_lines", "trace_lines"]

MARKS = {"ok": "✓", "warning": "!", "blocked": "✗", "blocker": "✗", "skip": "·", "note": "·", "bypassed": "·"}
_STYLES = {"ok": "ok", "warning": "warning", "blocked": "bad", "blocker": "bad"}
_LEVELS = {"warning": 1, "blocked": 2, "blocker": 2}

_QUIET_WHEN_OK = frozenset({"selected", "folder", "prompts", "max-samples", "sample-skip", "work"})
"""Steps that say nothing which is not in the dataset's own line, as long as they are fine."""
_QUIET = frozenset({"sample-skip", "overlap", "trailing-assistant", "trainable"})
"""Steps that matter to one who asks for all of them."""


def trace_lines(plan: Mapping[str, Any], width: int = 120, *, full: bool = False) -> list[TraceLine]:
    """The whole trace. `full` shows every rule that was looked at; else what is fine and obvious is left out."""
    width = max(40, width)
    lines = [*_head(plan, width), TraceLine()]
    for dataset in ordered_datasets(plan):
        lines += dataset_lines(dataset, width, full=full)
    lines.append(TraceLine())
    lines += preflight_lines(rows(plan, "preflight"), width)
    lines += _assumed(rows(plan, "assumptions"), width)
    lines += running_lines(plan, width)
    return lines


def ordered_datasets(plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The riskiest dataset first, then the others in the order of the run."""
    datasets = rows(plan, "datasets")
    return sorted(datasets, key=lambda dataset: dataset.get("name") != plan.get("riskiest"))


def _head(plan: Mapping[str, Any], width: int) -> Iterator[TraceLine]:
    release = clean(plan.get("release") or "", 12)
    parts = [
        Span("dry run", "title"),
        Span(f"restart with {launch_flags(object_of(plan, 'options'))}"),
        Span(f"planned by the code that will run{', ' + release if release else ''}", "dim"),
        Span("nothing has been changed", "dim"),
    ]
    yield from flow(parts, width, first=" ", rest=" ")
    yield from flow(_totals(plan), width, first=" ", rest=" ")
    sampling = object_of(plan, "sampling")
    values = object_of(sampling, "values")
    if values:
        shown = ", ".join(f"{clean(key, 40)} {clean(value, 40)}" for key, value in values.items())
        source = clean(sampling.get("source") or "", 60)
        yield from flow([Span(f"sampling {shown}", "dim"), Span(f"from {source}", "dim")], width, first=" ", rest=" ")


def _totals(plan: Mapping[str, Any]) -> list[Span]:
    totals = object_of(plan, "totals")
    warnings, blocked = whole(totals, "warnings"), whole(totals, "blocked")
    blockers = sum(row.get("level") == "blocker" for row in rows(plan, "preflight"))
    spans = []
    if blockers:
        spans.append(Span(text.plural(blockers, "blocker"), "bad"))
    spans.append(Span(text.plural(warnings, "warning"), "warning") if warnings else Span("no warnings", "ok"))
    work, skip = whole(totals, "work"), whole(totals, "skip")
    some = f"{text.plural(work, 'dataset')} work{'s' if work == 1 else ''}, {skip} skip{'s' if skip == 1 else ''}"
    spans.append(Span(f"{some}{f', {blocked} blocked' if blocked else ''}"))
    spans.append(Span(amount_words(totals)))
    return spans


def amount_words(totals: Mapping[str, Any]) -> str:
    """What the run will make and take: tokens, answers, time, GPU-hours, cost and bytes, as far as each is known."""
    if not totals.get("expected_tokens"):
        return "no new tokens"
    parts = [
        f"about {text.about_tokens(number(totals, 'expected_tokens'))} new tokens",
        f"{text.about(number(totals, 'expected_responses'))} answers",
    ]
    expected_s = number(totals, "expected_s")
    if expected_s:
        # A speed that was measured with one request in flight makes hours of minutes: it is told with them.
        tokens_s = (number(totals, "expected_tokens") or 0) / expected_s
        parts.append(f"{text.duration(expected_s)} at {text.about(tokens_s)} tok/s")
    else:
        parts.append("time unknown until a speed is measured")
    if number(totals, "expected_gpu_h") is not None:
        parts.append(text.hours(number(totals, "expected_gpu_h"), "GPU-h"))
    price = number(totals, "expected_cost")
    if price is not None:
        parts.append(f"cost {price:,.2f}")
    parts.append(text.size(number(totals, "expected_bytes")))
    return ", ".join(parts)


def dataset_lines(dataset: Mapping[str, Any], width: int, *, full: bool = False) -> list[TraceLine]:
    """One dataset: its decision in a line, then the steps that led to it, with their evidence."""
    folder = clean(dataset.get("name") or "", 120)
    level = max((_LEVELS.get(str(row.get("level")), 0) for row in rows(dataset, "problems")), default=0)
    mark = ("", "!", "✗")[level]
    style = ("", "warning", "bad")[level]
    inference = object_of(dataset, "inference")
    decision = clean(inference.get("decision") or "", 20)
    lead = (
        Span(f" {mark:<2}", style),
        Span(text.fit(clean(dataset.get("id") or "", 20), 4), "title"),
        Span(text.fit(clean(dataset.get("title") or "", 60), _title_width(width)), "title"),
        Span(f"{decision:<9}", style or ("dim" if decision == "skip" else "title")),
    )
    indent = sum(text.cells(span.text) for span in lead)
    lines = []
    for at, part in enumerate(text.wrap(decision_words(dataset), width - indent)):
        spans = (*lead, Span(part)) if at == 0 else (Span(" " * indent), Span(part))
        lines.append(TraceLine(spans, style, folder))
    for step in rows(dataset, "steps"):
        if full or _worth_showing(step, inference):
            lines += _step_lines(step, width, folder)
    for problem in rows(dataset, "problems"):
        # Steps say what was found; a blocked dataset's problem says what to do.
        if problem.get("level") == "blocked":
            lines += marked("✗", "bad", "", clean(problem.get("message") or "", 400), "", width, folder)
    return lines


def _title_width(width: int) -> int:
    """Columns for a dataset's name; where there is no room for it, its id has to do."""
    return 0 if width < 64 else 17 if width < 100 else 19


def decision_words(dataset: Mapping[str, Any]) -> str:
    """Why, in one sentence with the figures that decided."""
    inference = object_of(dataset, "inference")
    reason = clean(inference.get("reason") or "", 40)
    budget = number(inference, "budget")
    tokens = number(inference, "existing_tokens")
    if reason == "budget-met":
        return f"budget met: {text.tokens(tokens)} ≥ {text.limit(budget)}; sample-count skip bypassed (budget > 0)"
    if inference.get("decision") in ("resume", "start"):
        return _work_words(inference)
    words = {
        "samples-met": f"samples met: {text.count(number(inference, 'answered'))} answers",
        "exhausted": f"no prompts left; {text.tokens(tokens)}{f' of {text.limit(budget)}' if budget else ''} tokens",
        "pretokenized": "already tokenized, needs no inference",
        "not-selected": "not in --datasets",
        "missing": "there is no such folder",
        "no-prompts": "there are no prompts",
        "faulty": "faulty: left out of the run",
    }
    return words.get(reason, reason.replace("-", " "))


def _work_words(inference: Mapping[str, Any]) -> str:
    kept, left = number(inference, "answered"), number(inference, "prompts_left")
    answers = number(inference, "expected_responses")
    mean, source = number(inference, "mean_tokens"), clean(inference.get("mean_source") or "", 80)
    prompts = text.plural(round(left or 0), "prompt")
    first = f"{text.plural(round(kept), 'answer')} kept, {prompts} left" if kept else f"from scratch, {prompts}"
    expected = "all of them" if answers == left else f"~{text.about(answers)} answers"
    tokens = f"about {text.about_tokens(number(inference, 'expected_tokens'))}"
    return f"{first}, {expected}, {tokens} ({source}: {text.count(mean)})"


def _worth_showing(step: Mapping[str, Any], inference: Mapping[str, Any]) -> bool:
    """What an operator must see of a dataset; the rest is a key away."""
    check, outcome = step.get("check"), step.get("outcome")
    if outcome in ("warning", "blocked"):
        return True
    if outcome == "skip" or check in _QUIET or (outcome == "ok" and check in _QUIET_WHEN_OK):
        return False
    works, fresh = inference.get("decision") in ("resume", "start"), not inference.get("existing_responses")
    if check in ("records", "settings", "budget"):
        return works and not fresh
    return not (works and fresh and check == "tokenization")


def _step_lines(step: Mapping[str, Any], width: int, folder: str) -> list[TraceLine]:
    outcome = clean(step.get("outcome") or "", 20)
    return marked(
        MARKS.get(outcome, "·"),
        _STYLES.get(outcome, "dim"),
        clean(step.get("check") or "", 30),
        clean(step.get("because") or "", 400),
        clean(step.get("evidence") or "", 200),
        width,
        folder,
    )


def preflight_lines(checks: Sequence[Mapping[str, Any]], width: int, *, full: bool = False) -> list[TraceLine]:
    """The preflight: how many are fine, and each one that is not, with its remedy. `full` shows the fine ones too."""
    if not checks:
        return []
    count = {level: sum(row.get("level") == level for row in checks) for level in ("ok", "warning", "blocker")}
    spans = [Span(f"{count['ok']} ok", "ok")]
    if count["warning"]:
        spans.append(Span(text.plural(count["warning"], "warning"), "warning"))
    if count["blocker"]:
        spans.append(Span(text.plural(count["blocker"], "blocker"), "bad"))
    lines = flow(spans, width, first=" PREFLIGHT  ", rest=" " * 12)
    for row in checks:
        level = clean(row.get("level") or "", 20)
        if level == "ok" and not full:
            continue
        remedy = clean(row.get("remedy") or "", 400)
        name, detail = clean(row.get("check") or "", 30), clean(row.get("detail") or "", 400)
        lines += marked(MARKS.get(level, "·"), _STYLES.get(level, "dim"), name, detail, "", width)
        if remedy:
            lead = " " * (8 + NAME_WIDTH)
            lines += [
                TraceLine((Span(lead if at else f"{lead[:-2]}→ "), Span(part, "key")))
                for at, part in enumerate(text.wrap(remedy, width - len(lead)))
            ]
    return lines


def _assumed(items: Sequence[Mapping[str, Any]], width: int) -> list[TraceLine]:
    spans = []
    for row in items:
        holds = row.get("holds")
        mark, style = ("✓", "ok") if holds is True else ("✗", "bad") if holds is False else ("?", "warning")
        spans.append(Span(f"{mark} {clean(row.get('detail') or row.get('check') or '', 300)}", style))
    lines: list[TraceLine] = []
    for at, span in enumerate(spans):
        lines += flow([span], width, first=" ASSUMED  " if at == 0 else " " * 10, rest=" " * 12)
    return lines
