"""The trace as lines of styled text: what `trace` prints, `restart` asks about, and the trace screen colours.

In: the object that `plan --json` gives. Out: `TraceLine`s that fit a width. Every style is also
told by a word or a mark, so that the plain text of a pipe says the same. Outside text is cleaned
here once more: a plan may come from a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console import text
from remote.text import clean

MARKS = {"ok": "✓", "warning": "!", "blocked": "✗", "blocker": "✗", "skip": "·", "note": "·", "bypassed": "·"}
ASCII = str.maketrans({"✓": "v", "✗": "x", "·": "-", "–": "-", "≥": ">=", "…": "...", "→": "->", "▸": ">"})
_STYLES = {"ok": "ok", "warning": "warning", "blocked": "bad", "blocker": "bad"}
_LEVELS = {"warning": 1, "blocked": 2, "blocker": 2}

_QUIET_WHEN_OK = frozenset({"selected", "folder", "prompts", "max-samples", "sample-skip", "work"})
"""Steps that say nothing which is not in the dataset's own line, as long as they are fine."""
_QUIET = frozenset({"sample-skip", "overlap", "trailing-assistant", "trainable"})
"""Steps that matter to one who asks for all of them."""
_CHECK_WIDTH = 15


@dataclass(frozen=True)
class Span:
    """A piece of a line: `style` is empty, title, dim, ok, warning, bad or key."""

    text: str
    style: str = ""


@dataclass(frozen=True)
class TraceLine:
    """One line: its spans, `level` (empty, warning, bad), and the folder of the dataset it is about, if one."""

    spans: tuple[Span, ...] = ()
    level: str = ""
    folder: str | None = None

    @property
    def text(self) -> str:
        """The line without styles, and without blanks at its end."""
        return "".join(span.text for span in self.spans).rstrip()


def trace_lines(plan: Mapping[str, Any], width: int = 120, *, full: bool = False) -> list[TraceLine]:
    """The whole trace. `full` shows every rule that was looked at; else what is fine and obvious is left out."""
    width = max(40, width)
    lines = [*_head(plan, width), TraceLine()]
    for dataset in ordered_datasets(plan):
        lines += dataset_lines(dataset, width, full=full)
    lines.append(TraceLine())
    lines += preflight_lines(_rows(plan, "preflight"), width)
    lines += _assumed(_rows(plan, "assumptions"), width)
    lines += running_lines(plan, width)
    return lines


def plain(lines: Iterable[TraceLine], ascii_only: bool = False) -> str:
    """The lines as text for a pipe or a file: no escapes, one newline each; marks in ASCII when asked."""
    joined = "".join(f"{line.text}\n" for line in lines)
    return joined.translate(ASCII) if ascii_only else joined


def ordered_datasets(plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The riskiest dataset first, then the others in the order of the run."""
    datasets = _rows(plan, "datasets")
    return sorted(datasets, key=lambda dataset: dataset.get("name") != plan.get("riskiest"))


def _head(plan: Mapping[str, Any], width: int) -> Iterator[TraceLine]:
    release = clean(plan.get("release") or "", 12)
    parts = [
        Span("dry run", "title"),
        Span(f"restart with {launch_flags(_object(plan, 'options'))}"),
        Span(f"planned by the code that will run{', ' + release if release else ''}", "dim"),
        Span("nothing has been changed", "dim"),
    ]
    yield from _flow(parts, width, first=" ", rest=" ")
    yield from _flow(_totals(plan), width, first=" ", rest=" ")
    sampling = _object(plan, "sampling")
    values = _object(sampling, "values")
    if values:
        shown = ", ".join(f"{clean(key, 40)} {clean(value, 40)}" for key, value in values.items())
        source = clean(sampling.get("source") or "", 60)
        yield from _flow([Span(f"sampling {shown}", "dim"), Span(f"from {source}", "dim")], width, first=" ", rest=" ")


def _totals(plan: Mapping[str, Any]) -> list[Span]:
    totals = _object(plan, "totals")
    warnings, blocked = _whole(totals, "warnings"), _whole(totals, "blocked")
    blockers = sum(row.get("level") == "blocker" for row in _rows(plan, "preflight"))
    spans = []
    if blockers:
        spans.append(Span(text.plural(blockers, "blocker"), "bad"))
    spans.append(Span(text.plural(warnings, "warning"), "warning") if warnings else Span("no warnings", "ok"))
    work, skip = _whole(totals, "work"), _whole(totals, "skip")
    some = f"{text.plural(work, 'dataset')} work{'s' if work == 1 else ''}, {skip} skip{'s' if skip == 1 else ''}"
    spans.append(Span(f"{some}{f', {blocked} blocked' if blocked else ''}"))
    spans.append(Span(_amount(totals)))
    return spans


def _amount(totals: Mapping[str, Any]) -> str:
    if not totals.get("expected_tokens"):
        return "no new tokens"
    parts = [
        f"about {text.about_tokens(_number(totals, 'expected_tokens'))} new tokens",
        f"{text.about(_number(totals, 'expected_responses'))} answers",
    ]
    if _number(totals, "expected_s") is not None:
        parts.append(text.duration(_number(totals, "expected_s")))
    else:
        parts.append("time unknown until a speed is measured")
    if _number(totals, "expected_gpu_h") is not None:
        parts.append(text.hours(_number(totals, "expected_gpu_h"), "GPU-h"))
    price = _number(totals, "expected_cost")
    if price is not None:
        parts.append(f"cost {price:,.2f}")
    parts.append(text.size(_number(totals, "expected_bytes")))
    return ", ".join(parts)


def dataset_lines(dataset: Mapping[str, Any], width: int, *, full: bool = False) -> list[TraceLine]:
    """One dataset: its decision in a line, then the steps that led to it, with their evidence."""
    folder = clean(dataset.get("name") or "", 120)
    level = max((_LEVELS.get(str(row.get("level")), 0) for row in _rows(dataset, "problems")), default=0)
    mark = ("", "!", "✗")[level]
    style = ("", "warning", "bad")[level]
    inference = _object(dataset, "inference")
    decision = clean(inference.get("decision") or "", 20)
    lead = (
        Span(f" {mark:<2}", style),
        Span(text.fit(clean(dataset.get("id") or "", 20), 4), "title"),
        Span(text.fit(clean(dataset.get("title") or "", 60), 17 if width < 100 else 19), "title"),
        Span(f"{decision:<9}", style or ("dim" if decision == "skip" else "title")),
    )
    indent = sum(text.cells(span.text) for span in lead)
    lines = []
    for number, part in enumerate(text.wrap(decision_words(dataset), width - indent)):
        spans = (*lead, Span(part)) if number == 0 else (Span(" " * indent), Span(part))
        lines.append(TraceLine(spans, style, folder))
    for step in _rows(dataset, "steps"):
        if full or _worth_showing(step, inference):
            lines += _step_lines(step, width, folder)
    for problem in _rows(dataset, "problems"):
        # Steps say what was found; a blocked dataset's problem says what to do.
        if problem.get("level") == "blocked":
            lines += _marked("✗", "bad", "", clean(problem.get("message") or "", 400), "", width, folder)
    return lines


def decision_words(dataset: Mapping[str, Any]) -> str:
    """Why, in one sentence with the figures that decided."""
    inference = _object(dataset, "inference")
    reason = clean(inference.get("reason") or "", 40)
    budget = _number(inference, "budget")
    tokens = _number(inference, "existing_tokens")
    if reason == "budget-met":
        return f"budget met: {text.tokens(tokens)} ≥ {text.limit(budget)}; sample-count skip bypassed (budget > 0)"
    if inference.get("decision") in ("resume", "start"):
        return _work_words(inference)
    words = {
        "samples-met": f"samples met: {text.count(_number(inference, 'answered'))} answers",
        "exhausted": f"no prompts left; {text.tokens(tokens)}{f' of {text.limit(budget)}' if budget else ''} tokens",
        "pretokenized": "already tokenized, needs no inference",
        "not-selected": "not in --datasets",
        "missing": "there is no such folder",
        "no-prompts": "there are no prompts",
        "faulty": "faulty: left out of the run",
    }
    return words.get(reason, reason.replace("-", " "))


def _work_words(inference: Mapping[str, Any]) -> str:
    kept, left = _number(inference, "answered"), _number(inference, "prompts_left")
    answers = _number(inference, "expected_responses")
    mean, source = _number(inference, "mean_tokens"), clean(inference.get("mean_source") or "", 80)
    prompts = text.plural(round(left or 0), "prompt")
    first = f"{text.plural(round(kept), 'answer')} kept, {prompts} left" if kept else f"from scratch, {prompts}"
    expected = "all of them" if answers == left else f"~{text.about(answers)} answers"
    tokens = f"about {text.about_tokens(_number(inference, 'expected_tokens'))}"
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
    return _marked(
        MARKS.get(outcome, "·"),
        _STYLES.get(outcome, "dim"),
        clean(step.get("check") or "", 30),
        clean(step.get("because") or "", 400),
        clean(step.get("evidence") or "", 200),
        width,
        folder,
    )


def _marked(
    mark: str, style: str, name: str, body: str, evidence: str, width: int, folder: str | None = None
) -> list[TraceLine]:
    """A marked line: name, what was found, and the evidence at the right edge, or below where it does not fit."""
    lead = (Span(f"      {mark} ", style), Span(f"{name:<{_CHECK_WIDTH}}" if name else "", "dim"))
    indent = sum(text.cells(span.text) for span in lead)
    level = style if style in ("warning", "bad") else ""
    wrapped = text.wrap(body, width - indent)
    lines = []
    for number, part in enumerate(wrapped):
        before = lead if number == 0 else (Span(" " * indent),)
        lines.append(TraceLine((*before, Span(part, level)), level, folder))
    if evidence:
        room = width - indent - text.cells(wrapped[-1]) - 2
        if text.cells(evidence) <= room:
            last = lines[-1]
            gap = " " * (room - text.cells(evidence) + 2)
            lines[-1] = TraceLine((*last.spans, Span(gap), Span(evidence, "dim")), level, folder)
        else:
            lines += [
                TraceLine((Span(" " * indent), Span(part, "dim")), level, folder)
                for part in text.wrap(evidence, width - indent)
            ]
    return lines


def preflight_lines(rows: Sequence[Mapping[str, Any]], width: int, *, full: bool = False) -> list[TraceLine]:
    """The preflight: how many are fine, and each one that is not, with its remedy. `full` shows the fine ones too."""
    if not rows:
        return []
    count = {level: sum(row.get("level") == level for row in rows) for level in ("ok", "warning", "blocker")}
    spans = [Span(f"{count['ok']} ok", "ok")]
    if count["warning"]:
        spans.append(Span(text.plural(count["warning"], "warning"), "warning"))
    if count["blocker"]:
        spans.append(Span(text.plural(count["blocker"], "blocker"), "bad"))
    lines = _flow(spans, width, first=" PREFLIGHT  ", rest=" " * 12)
    for row in rows:
        level = clean(row.get("level") or "", 20)
        if level == "ok" and not full:
            continue
        remedy = clean(row.get("remedy") or "", 400)
        name, detail = clean(row.get("check") or "", 30), clean(row.get("detail") or "", 400)
        lines += _marked(MARKS.get(level, "·"), _STYLES.get(level, "dim"), name, detail, "", width)
        if remedy:
            lead = " " * (8 + _CHECK_WIDTH)
            lines += [
                TraceLine((Span(lead if number else f"{lead[:-2]}→ "), Span(part, "key")))
                for number, part in enumerate(text.wrap(remedy, width - len(lead)))
            ]
    return lines


def _assumed(rows: Sequence[Mapping[str, Any]], width: int) -> list[TraceLine]:
    spans = []
    for row in rows:
        holds = row.get("holds")
        mark, style = ("✓", "ok") if holds is True else ("✗", "bad") if holds is False else ("?", "warning")
        spans.append(Span(f"{mark} {clean(row.get('detail') or row.get('check') or '', 300)}", style))
    lines: list[TraceLine] = []
    for number, span in enumerate(spans):
        lines += _flow([span], width, first=" ASSUMED  " if number == 0 else " " * 10, rest=" " * 12)
    return lines


def running_lines(plan: Mapping[str, Any], width: int) -> list[TraceLine]:
    """What each process that runs now would still do if it were left alone, its flags beside the new ones."""
    lines: list[TraceLine] = []
    names = {str(row.get("name")): clean(row.get("id") or "", 20) for row in _rows(plan, "datasets")}
    for process in _rows(plan, "running"):
        lines += _flow([Span(left_alone_words(process, names), _left_style(process))], width, first=" ", rest="   ")
        told = [Span(part, "dim") for part in _process_words(process, names)]
        lines += _flow(told, width, first="   ", rest="   ")
        new = launch_flags(_object(plan, "options"))
        dropped = [flag for flag in running_flags(process) if flag.split()[0] not in new.split()]
        change = f"restart runs {new}{' (drops ' + ', '.join(dropped) + ')' if dropped else ''}"
        lines += _flow([Span(change, "dim")], width, first="   ", rest="   ")
    return lines


def _left_style(process: Mapping[str, Any]) -> str:
    return "warning" if process.get("needless_tokens") != 0 else ""


def left_alone_words(process: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """`IF LEFT ALONE pid 911 would write 18.0 M tokens nobody needs (B2 15.0 M, …): 8 h 27 m, 68 GPU-h`."""
    who = f"IF LEFT ALONE pid {text.count(_number(process, 'pid')).replace(',', '')}"
    needless = _number(process, "needless_tokens")
    if needless is None:
        return f"{who}: what it would still write is not known (its flags or its place cannot be read)"
    if not needless:
        return f"{who} would write nothing beyond the budget"
    parts: list[str] = []
    for folder, beyond in _object(process, "needless_by").items():
        name = names.get(folder, clean(folder, 40))
        parts.append(f"{name} {text.about_tokens(beyond)}")
    costs = [text.duration(_number(process, "needless_s"))] if _number(process, "needless_s") is not None else []
    if _number(process, "needless_gpu_h") is not None:
        costs.append(text.hours(_number(process, "needless_gpu_h"), "GPU-h"))
    price = _number(process, "needless_cost")
    if price is not None:
        costs.append(f"cost {price:,.2f}")
    tail = f": {', '.join(costs)}" if costs else "; how long that takes is not known until a speed is measured"
    return f"{who} would write {text.about_tokens(needless)} tokens nobody needs ({', '.join(parts)}){tail}"


def running_flags(process: Mapping[str, Any]) -> list[str]:
    """The flags of a running process that a restart would change."""
    flags = []
    for key, flag in (("max_samples", "--max-samples"), ("token_budget", "--token-budget")):
        if process.get(key) is not None:
            flags.append(f"{flag} {clean(process[key], 40)}")
    return flags


def _process_words(process: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    ours = "started by this console" if process.get("ours") else "not started by this console"
    words = [
        ours,
        *_more_answers(process, names),
        f"it runs {', '.join(running_flags(process)) or 'neither cap nor budget'}",
    ]
    script = process.get("script")
    if script:
        known = process.get("knows_token_budget")
        knows = "knows" if known is True else "does not know" if known is False else "may or may not know"
        digest = clean(process.get("script_digest") or "", 12)
        words.append(f"{clean(script, 80)}{' ' + digest if digest else ''} {knows} --token-budget")
    if process.get("respawns"):
        words.append(f"pid {clean(process.get('parent_pid'), 12)} may start it again")
    return words


def _more_answers(process: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    """How many more answers it would take of those datasets that have enough already."""
    more, needless = _object(process, "more_answers"), _object(process, "needless_by")
    told = [
        f"{text.count(more[folder])} more answers of {names.get(folder, clean(folder, 40))}"
        for folder in needless
        if folder in more
    ]
    return [", ".join(told)] if told else []


def launch_flags(options: Mapping[str, Any]) -> str:
    """The flags that a restart would give, those that differ from the defaults."""
    budget = _object(options, "token_budget")
    per = _object(budget, "per")
    shown = [text.limit(_number(budget, "default")).replace(" ", "")] if budget.get("default") != 0 or not per else []
    shown += [f"{clean(name, 40)}={text.limit(float(tokens)).replace(' ', '')}" for name, tokens in per.items()]
    flags = [f"--token-budget {','.join(shown).replace('none', '0')}"]
    if options.get("max_samples") is not None:
        flags.append(f"--max-samples {clean(options['max_samples'], 20)}")
    if options.get("datasets"):
        flags.append(f"--datasets {clean(','.join(map(str, options['datasets'])), 80)}")
    if options.get("shuffle") is not None:
        flags.append(f"--shuffle {clean(options['shuffle'], 20)}")
    if options.get("accept"):
        flags += [f"--accept {clean(code, 60)}" for code in options["accept"]]
    flags.append(f"--concurrency {clean(options.get('concurrency'), 20)}")
    return " ".join(flags)


def _flow(spans: Sequence[Span], width: int, *, first: str, rest: str) -> list[TraceLine]:
    """Spans side by side, three blanks apart, going on in the next line where the width ends."""
    lines: list[TraceLine] = []
    current: list[Span] = [Span(first)]
    used = len(first)
    for span in spans:
        gap = 3 if len(current) > 1 else 0
        if gap and used + gap + text.cells(span.text) > width:
            lines.append(TraceLine(tuple(current)))
            current, used, gap = [Span(rest)], len(rest), 0
        if gap:
            current.append(Span(" " * gap))
        pieces = text.wrap(span.text, width - used - gap)
        for number, piece in enumerate(pieces):
            if number:
                lines.append(TraceLine(tuple(current)))
                current, used = [Span(rest)], len(rest)
            current.append(Span(piece, span.style))
            used += gap + text.cells(piece)
            gap = 0
    lines.append(TraceLine(tuple(current)))
    return lines


def _rows(value: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = value.get(key)
    return [row for row in found if isinstance(row, Mapping)] if isinstance(found, Sequence) else []


def _object(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, Mapping) else {}


def _number(value: Mapping[str, Any], key: str) -> float | None:
    found = value.get(key)
    return found if isinstance(found, (int, float)) and not isinstance(found, bool) else None


def _whole(value: Mapping[str, Any], key: str) -> int:
    return int(_number(value, key) or 0)
