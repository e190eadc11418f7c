"""The rules that decide what a run does with one dataset, in the order in which they are asked.

Each rule takes the state and the options, leaves the steps it looked at, and gives a ruling
(decision, reason) or None, which passes the question on to the next rule (DESIGN §4, 1 to 6).
"""

from __future__ import annotations

from collections.abc import Callable

from remote import figures
from remote.facts import PRETOKENIZED_KIND, DatasetState
from remote.forecast import mean_answer
from remote.layout import DECLARED, PROMPTS, RESPONSES, dataset_id
from remote.options import Options
from remote.steps import BLOCKED, BYPASSED, NOTE, OK, SKIP, WARNING, Findings
from remote.text import clean

FAULTY_SHARE = 0.01
FAULTY_RECORDS = 20
"""More than 1 % and at least 20 records unusable block a dataset (DESIGN §4, CASES F12)."""

Ruling = tuple[str, str]
Rule = Callable[[DatasetState, Options, Findings], "Ruling | None"]


def accepts(options: Options, code: str, folder: str) -> bool:
    """Whether `--accept` names this problem: `faulty` everywhere, or `faulty:B3` for one dataset alone."""
    return any(name in options.accept for name in (code, f"{code}:{folder}", f"{code}:{dataset_id(folder)}"))


def room(state: DatasetState, options: Options) -> int:
    """How many more prompts may be answered: those left, under the cap of `--max-samples`."""
    left = unanswered(state, options)
    return left if options.max_samples is None else max(0, min(left, options.max_samples - state.answered))


def unanswered(state: DatasetState, options: Options) -> int:
    """Prompts left: usable, without a usable answer, and not set aside unless those are tried again."""
    aside = 0 if options.retry_failed else state.set_aside
    return max(0, (state.prompts or 0) - state.answered - aside)


def selected(state: DatasetState, options: Options, found: Findings) -> Ruling | None:
    """1. Does `--datasets` take it in?"""
    if options.datasets is None:
        found.step("selected", OK, "all datasets are taken", "no --datasets given")
        return None
    given = f"--datasets {clean(','.join(options.datasets), 80)}"
    if options.selects(state.folder):
        found.step("selected", OK, "named", given)
        return None
    found.step("selected", SKIP, "not named", given)
    return "skip", "not-selected"


def present(state: DatasetState, options: Options, found: Findings) -> Ruling | None:
    """2. Is there a folder, of which kind, and are there prompts?"""
    if not state.exists:
        found.step("folder", SKIP, "there is no such folder", f"{state.folder}/")
        found.problem(WARNING, "missing", f"there is no folder {clean(state.folder)} under the root")
        return "skip", "missing"
    if state.kind == PRETOKENIZED_KIND:
        found.step("folder", SKIP, "already tokenized; needs no inference", "tokenized_data.jsonl, no prompts.jsonl")
        return "skip", "pretokenized"
    if not state.readable:
        detail = clean(state.detail) or "a file cannot be read"
        found.step("folder", BLOCKED, f"cannot be read: {detail}", f"{state.folder}/")
        found.problem(BLOCKED, "unreadable", f"cannot be read: {detail}")
        return "blocked", "faulty"
    if not state.prompts:
        what = "there is no prompts.jsonl" if state.prompts is None else "prompts.jsonl holds no usable prompt"
        declared = "; it is a prompt dataset by declaration" if state.folder in DECLARED else ""
        found.step("folder", SKIP, what + declared, f"{state.folder}/{PROMPTS}")
        found.problem(WARNING, "no-prompts", f"{what}{declared}: nothing can be generated for it")
        return "skip", "no-prompts"
    found.step("folder", OK, f"{figures.plural(state.prompts, 'usable prompt')}", PROMPTS)
    if state.bad_prompts:
        lines = figures.plural(state.bad_prompts, "bad or repeated line")
        found.step("bad-prompts", WARNING, f"{lines} in prompts.jsonl left out", PROMPTS)
        found.problem(WARNING, "bad-prompts", f"{lines} in prompts.jsonl: never generated")
    if state.trailing_assistant:
        found.step(
            "trailing-assistant",
            NOTE,
            f"{figures.plural(state.trailing_assistant, 'prompt')} with the source's own answer at the end: left out",
            PROMPTS,
        )
    return None


def records(state: DatasetState, options: Options, found: Findings) -> Ruling | None:
    """3. Every record's class; what is generated again; what other settings have answered."""
    counts = state.records
    if not state.responses and not counts.torn:
        found.step("records", OK, "no answers yet", RESPONSES)
        return None
    parts = [f"{counts.valid:,} valid"]
    for number, name in (
        (counts.repairable, "repairable"),
        (counts.unusable, "unusable"),
        (counts.duplicates, "duplicates"),
        (counts.orphans or 0, "orphans"),
        (counts.torn, "torn"),
    ):
        if number:
            parts.append(f"{number:,} {name}")
    summary = f"{', '.join(parts)} of {figures.plural(state.responses or 0, 'record')}, every one checked"
    evidence = f"{RESPONSES}{', ' + clean(state.first_problem) if state.first_problem else ''}"
    ruling = _faulty(state, options, found, summary, evidence)
    if ruling is not None:
        return ruling
    _settings(state, found)
    if counts.orphans:
        found.problem(NOTE, "orphans", f"{figures.plural(counts.orphans, 'answer')} to prompts that are not there")
    if counts.duplicates:
        found.problem(
            NOTE, "duplicates", f"{figures.plural(counts.duplicates, 'repeated answer')}: the first one counts"
        )
    return None


def _faulty(state: DatasetState, options: Options, found: Findings, summary: str, evidence: str) -> Ruling | None:
    unusable = state.records.unusable
    if not unusable:
        found.step("records", OK, summary, evidence)
        return None
    again = f"{figures.plural(unusable, 'unusable record')}: generated again, the lines stay"
    if unusable < FAULTY_RECORDS or unusable <= FAULTY_SHARE * (state.responses or 0):
        found.step("records", WARNING, f"{summary}; {unusable:,} generated again", evidence)
        found.problem(WARNING, "unusable", again)
        return None
    share = figures.percent(unusable, state.responses)
    code = f"faulty:{dataset_id(state.folder)}"
    if accepts(options, "faulty", state.folder):
        found.step("records", WARNING, f"{summary}; {share} unusable, accepted by --accept {code}", evidence)
        found.problem(WARNING, "faulty", f"{again}; {share} of all, accepted")
        return None
    found.step("records", BLOCKED, f"{summary}; {share} unusable", evidence)
    found.problem(
        BLOCKED,
        "faulty",
        f"{unusable:,} of {state.responses:,} records unusable ({share}): a wrong --model-path or a bad engine makes"
        f" that; check, or pay for them again with --accept {code}",
    )
    return "blocked", "faulty"


def _settings(state: DatasetState, found: Findings) -> None:
    for change in state.settings_changes:
        answers = figures.plural(change.answers, "answer") if change.answers is not None else "answers"
        text = f"{answers} made with {clean(change.what)} {clean(change.was, 80)}, now {clean(change.now, 80)}"
        found.step("settings", WARNING, text, "runs.jsonl")
        found.problem(WARNING, "settings-changed", text)
    if state.unrecorded:
        # "Same keys" is not "same schema": it is said only where every single record has it.
        as_ours = state.records.valid == (state.responses or 0) - state.records.duplicates - (
            state.records.orphans or 0
        )
        schema = "same keys, types and ranges" if as_ours else "not all of today's form"
        found.step(
            "settings",
            NOTE,
            f"{'' if state.unrecorded == state.answered else 'about '}{figures.plural(state.unrecorded, 'answer')}"
            f" by an older script: {schema}, sampling settings unknown",
            "no record in runs.jsonl",
        )
    elif state.answered and not state.settings_changes:
        found.step("settings", OK, "answered with the settings, model and weights of now", "runs.jsonl")


def budget(state: DatasetState, options: Options, found: Findings) -> Ruling | None:
    """4. With a budget the sample-count skip is bypassed and the budget decides; without one, the count does."""
    wanted = options.token_budget.of(state.folder)
    if wanted > 0:
        found.step("sample-skip", BYPASSED, "sample-count skip bypassed: the budget alone decides", "budget > 0")
        if state.tokens >= wanted:
            found.step(
                "budget",
                SKIP,
                f"{figures.tokens(state.tokens)} ≥ {figures.limit(wanted)}: budget met",
                _sum(state, wanted),
            )
            _over_cap(state, options, found)
            return "skip", "budget-met"
        found.step("budget", OK, f"{state.tokens:,} < {wanted:,}: generate", _sum(state, wanted))
        return None
    found.step("budget", OK, "no token budget: the sample count decides", "--token-budget 0")
    target = min(options.max_samples or (state.prompts or 0), state.prompts or 0)
    if state.answered >= target:
        found.step("sample-skip", SKIP, f"{state.answered:,} of {target:,} prompts answered", _cap_text(options))
        _over_cap(state, options, found)
        return "skip", "samples-met"
    found.step("sample-skip", OK, f"{state.answered:,} of {target:,} prompts answered: generate", _cap_text(options))
    return None


def _sum(state: DatasetState, wanted: int) -> str:
    return f"{state.tokens:,} tokens in {figures.plural(state.records.usable, 'usable record')}; budget {wanted:,}"


def _cap_text(options: Options) -> str:
    return "no --max-samples" if options.max_samples is None else f"--max-samples {options.max_samples}"


def cap(state: DatasetState, options: Options, found: Findings) -> Ruling | None:
    """5. Under the budget `--max-samples` still caps how many prompts may be answered."""
    _over_cap(state, options, found)
    limit = options.max_samples
    wanted = options.token_budget.of(state.folder)
    if limit is None or not wanted:
        return None
    if state.answered < limit:
        found.step("max-samples", OK, f"{limit - state.answered:,} more answers allowed", _cap_text(options))
        return None
    short = figures.tokens(wanted - state.tokens)
    found.step("max-samples", SKIP, f"{state.answered:,} answered, none left under the cap", _cap_text(options))
    found.problem(WARNING, "below-budget", f"--max-samples {limit} stops it {short} tokens short of its budget")
    return "skip", "samples-met"


def _over_cap(state: DatasetState, options: Options, found: Findings) -> None:
    """More answers than a cap allows look like a contradiction; file times explain them."""
    written = figures.moment(state.responses_changed_at, state.at)
    if options.max_samples is not None and state.answered > options.max_samples:
        found.step(
            "over-cap",
            NOTE,
            f"{state.answered:,} answers exceed --max-samples {options.max_samples}: written before it was asked for",
            f"last written {written}",
        )
    for process in state.processes:
        if process.max_samples is None or state.answered <= process.max_samples:
            continue
        over = f"{state.answered:,} answers exceed the running process's --max-samples {process.max_samples}"
        since = figures.moment(process.since, state.at)
        if state.responses_changed_at is None or process.since is None:
            found.step("over-cap", NOTE, f"{over}: when they were written is not known", f"pid {process.pid}")
        elif state.responses_changed_at < process.since:
            found.step(
                "over-cap",
                NOTE,
                f"{over}: finished {written}, before it started {since}",
                f"pid {process.pid}, time of {RESPONSES}",
            )
        else:
            found.step(
                "over-cap",
                WARNING,
                f"{over}, and were written {written}, after it started {since}: it or another one wrote on",
                f"pid {process.pid}, time of {RESPONSES}",
            )


def prompts(state: DatasetState, options: Options, found: Findings) -> Ruling | None:
    """6. Are prompts left, and can they reach the budget?"""
    left = unanswered(state, options)
    if state.set_aside:
        again = "tried again (--retry-failed)" if options.retry_failed else "left out; --retry-failed tries them again"
        found.step("set-aside", NOTE, f"{figures.plural(state.set_aside, 'prompt')} set aside: {again}", "failed.jsonl")
    wanted = options.token_budget.of(state.folder)
    if left == 0:
        short = f", {figures.tokens(wanted - state.tokens)} tokens short of the budget" if wanted else ""
        found.step("prompts", SKIP, f"no prompts left{short}", f"{state.answered:,} of {state.prompts:,} answered")
        if wanted:
            found.problem(
                WARNING,
                "exhausted",
                f"every prompt is answered or set aside and {figures.tokens(wanted - state.tokens)} tokens are missing"
                " to its budget: it needs more prompts or a lower --token-budget",
            )
        return "skip", "exhausted"
    found.step(
        "prompts", OK, f"{figures.plural(left, 'prompt')} left", f"{state.answered:,} of {state.prompts:,} answered"
    )
    _reach(state, options, found)
    return None


def _reach(state: DatasetState, options: Options, found: Findings) -> None:
    """Said beforehand: a budget that the prompts cannot reach, and prompts that will never be used."""
    wanted = options.token_budget.of(state.folder)
    if not wanted:
        return
    mean = mean_answer(state)
    may = room(state, options)
    expected = state.tokens + may * mean.tokens
    if expected < wanted:
        # Fewer than 20 records of its own say too little about lengths to call a budget out of reach.
        if mean.own:
            cut = "--max-samples allows" if may < unanswered(state, options) else "its prompts give"
            text = f"{cut} about {figures.about_tokens(expected)} of {figures.limit(wanted)} tokens"
            found.step("reach", WARNING, f"the budget cannot be reached: {text}", mean.source)
            found.problem(WARNING, "budget-unreachable", f"{text}: it will end short of its budget")
        return
    unused = unanswered(state, options) - -(-(wanted - state.tokens) // max(1, round(mean.tokens)))
    if unused > 0 and options.shuffle is None:
        share = figures.percent(unused, state.prompts)
        found.step(
            "unused-prompts",
            NOTE,
            f"in file order about {figures.about(unused)} of its prompts ({share}), those at the end, are never used;"
            " --shuffle SEED takes them from all over the file",
            mean.source,
        )


RULES: tuple[Rule, ...] = (selected, present, records, budget, cap, prompts)
