"""What work is to be expected: answers, tokens, time, money and bytes, for us and for a process left alone.

All of it is estimates from mean lengths; a plan's decisions never depend on them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from remote import figures
from remote.facts import DatasetState, Process, Rate
from remote.options import Options

OWN_RECORDS = 20
"""From so many records of its own on, a dataset's mean is its own (DESIGN §4.7)."""
PRIOR_TOKENS = 2000.0
"""Mean length of an answer when there is no record anywhere (DESIGN §4.7)."""
BYTES_PER_TOKEN = 7.0
"""A token in raw_responses.jsonl when none is there to measure: six digits and a comma for Kimi's vocabulary."""
ROW_BYTES_PER_TOKEN = 10.0
"""A token in tokenized_data.jsonl: its id, and `1,` in the mask, with something for the prompt."""
HOUR_S = 3600.0


@dataclass(frozen=True)
class Mean:
    """Mean length of an answer in tokens, and what it is the mean of."""

    tokens: float
    source: str
    own: bool


def mean_answer(state: DatasetState) -> Mean:
    """Own records from 20 on, else those of all datasets, else 2,000."""
    if state.records.usable >= OWN_RECORDS and state.tokens > 0:
        return Mean(state.tokens / state.records.usable, "mean of its own", True)
    if state.all_records > 0 and state.all_tokens > 0:
        return Mean(state.all_tokens / state.all_records, "mean of all datasets", False)
    return Mean(PRIOR_TOKENS, "assumed mean", False)


@dataclass(frozen=True)
class Cost:
    """What so many tokens take. None where the speed, the GPUs or the price is not known."""

    seconds: float | None = None
    gpu_hours: float | None = None
    price: float | None = None

    def __str__(self) -> str:
        parts = [figures.duration(self.seconds)] if self.seconds is not None else []
        if self.gpu_hours is not None:
            parts.append(figures.hours(self.gpu_hours, "GPU-h"))
        if self.price is not None:
            parts.append(f"cost {self.price:,.2f}")
        return ", ".join(parts)


def cost_of(tokens: float, rate: Rate | None, gpus: int | None, options: Options) -> Cost:
    """Time at the measured rate, GPU-hours, and the container's price an hour times the hours."""
    if rate is None or rate.tokens_s <= 0:
        return Cost()
    seconds = tokens / rate.tokens_s
    hours = seconds / HOUR_S
    return Cost(
        seconds,
        hours * gpus if gpus else None,
        hours * options.price_per_hour if options.price_per_hour is not None else None,
    )


@dataclass(frozen=True)
class Expected:
    """The work that one dataset is expected to take."""

    responses: int
    tokens: int
    mean: Mean
    cost: Cost
    raw_bytes: int
    short_of: int
    """Tokens that its prompts are expected to leave missing to the budget."""


def expected_work(state: DatasetState, options: Options, may_answer: int, remaining: int) -> Expected:
    """The answers to expect, when `may_answer` more prompts may be answered and `remaining` tokens are wanted.

    Without a budget, all that may be answered is.
    """
    mean = mean_answer(state)
    budget = options.token_budget.of(state.folder)
    responses = min(may_answer, math.ceil(remaining / mean.tokens)) if budget else may_answer
    tokens = round(responses * mean.tokens)
    return Expected(
        responses=responses,
        tokens=tokens,
        mean=mean,
        cost=cost_of(tokens, state.rate, state.gpus, options),
        raw_bytes=round(tokens * (state.bytes_per_token or BYTES_PER_TOKEN)),
        short_of=max(0, remaining - tokens) if budget else 0,
    )


@dataclass(frozen=True)
class LeftAlone:
    """What a running process would still write beyond what is wanted.

    `needless_tokens` is None where its flags, or where it stands, are not known.
    """

    process: Process
    needless_tokens: int | None
    by_dataset: Mapping[str, int]
    more_answers: Mapping[str, int]
    cost: Cost
    same_options: bool = False
    """Ours, and a restart would run the same release with the same options."""

    def to_json(self) -> dict[str, object]:
        """As under `running` in `plan --json`."""
        process = self.process
        return {
            "pid": process.pid,
            "ours": process.ours,
            "same_options": self.same_options,
            "release": process.release,
            "since": process.since,
            "argv": list(process.argv),
            "script": process.script,
            "script_digest": process.script_digest,
            "script_mtime": process.script_mtime,
            "knows_token_budget": process.knows_token_budget,
            "token_budget": process.budget.default if process.budget is not None else None,
            "max_samples": process.max_samples,
            "datasets": list(process.datasets),
            "identity": dict(process.identity) if process.identity is not None else None,
            "respawns": process.respawns,
            "parent_pid": process.parent_pid,
            "needless_tokens": self.needless_tokens,
            "needless_s": self.cost.seconds,
            "needless_gpu_h": self.cost.gpu_hours,
            "needless_cost": self.cost.price,
            "needless_by": dict(self.by_dataset),
            "more_answers": dict(self.more_answers),
        }


_NO_MATTER = frozenset({"accept", "drain_s", "notify", "price_per_hour", "read_only"})
"""Options in which two runs may differ and still do the same."""


def _same(process: Process, options: Options, release: str | None) -> bool:
    if process.settings is None or not process.ours or process.release != release:
        return False
    wanted = options.to_json()
    return all(process.settings.get(key) == value for key, value in wanted.items() if key not in _NO_MATTER)


def needless(
    process: Process, states: Sequence[DatasetState], options: Options, release: str | None = None
) -> LeftAlone:
    """What `process` would write beyond the budget if it were left alone.

    DESIGN §6: Σ over the datasets from the one it is on: max(0, tokens + (min(cap, prompts) −
    answered) × mean − max(budget, tokens)); no cap is all prompts. A process with a token budget
    of its own stops there. Where we want no budget but a sample cap, what is wanted ends at it.
    `states` are in the order that the process takes them in.
    """
    same = _same(process, options, release)
    begin = _where_it_is(process, states)
    if begin is None or not process.flags_known:
        return LeftAlone(process, None, {}, {}, Cost(), same)
    by_dataset: dict[str, int] = {}
    more_answers: dict[str, int] = {}
    rate, gpus = None, None
    for state in states[begin:]:
        rate, gpus = rate or state.rate, gpus or state.gpus
        if state.prompts is None or not process.selects(state.folder):
            continue
        mean = mean_answer(state).tokens
        more = max(0, _capped(process.max_samples, state.prompts) - state.answered)
        final = state.tokens + more * mean
        own_budget = process.budget_of(state.folder)
        if own_budget and final > max(own_budget, state.tokens):
            final = max(own_budget, state.tokens)
            more = math.ceil((final - state.tokens) / mean)
        if more:
            more_answers[state.folder] = more
        beyond = final - _wanted(state, options, mean)
        if beyond >= 0.5:
            by_dataset[state.folder] = round(beyond)
    total = sum(by_dataset.values())
    return LeftAlone(process, total, by_dataset, more_answers, cost_of(total, rate, gpus, options), same)


def _capped(cap: int | None, prompts: int) -> int:
    return prompts if cap is None else min(cap, prompts)


def _wanted(state: DatasetState, options: Options, mean: float) -> float:
    """Tokens up to which a dataset is wanted; endless without budget and cap."""
    budget = options.token_budget.of(state.folder)
    if budget:
        return max(budget, state.tokens)
    if options.max_samples is None:
        return math.inf
    more = max(0, _capped(options.max_samples, state.prompts or 0) - state.answered)
    return state.tokens + more * mean


def _where_it_is(process: Process, states: Sequence[DatasetState]) -> int | None:
    """Index of the first dataset that it writes; else of the first that grows; None when nothing tells."""
    for index, state in enumerate(states):
        if state.folder in process.datasets:
            return index
    # A script that opens, appends and closes holds no file: what grows tells where it is.
    return next((index for index, state in enumerate(states) if state.growing), None)
