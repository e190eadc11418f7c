"""What a run will do, dataset by dataset, and why: one function that the run executes and the trace shows.

`plan_dataset` is pure: the same state and options give the same plan, on the container, in a
test and in the generator. `plan_root` adds what only all of them together can tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from remote import figures
from remote.check import WARNING as CHECK_WARNING
from remote.check import Check
from remote.facts import DatasetState, Rate, Tokenization
from remote.forecast import ROW_BYTES_PER_TOKEN, Cost, Expected, LeftAlone, cost_of, expected_work
from remote.layout import DECLARED, TOKENIZED_META, dataset_id, dataset_title
from remote.masking import masked_hook, masked_url
from remote.options import Options
from remote.rules import RULES, room, unanswered
from remote.steps import NOTE, OK, WARNING, Findings, Problem, Step
from remote.text import clean
from remote.tokenization import WOULD_LOSE

WORKING = frozenset({"resume", "start"})
"""Decisions that make a run generate."""


@dataclass(frozen=True)
class DatasetPlan:
    """What a run does with one dataset. Token counts are completion tokens.

    `may_answer` is how many prompts may still be answered (0 unless it works): those left, under
    the cap of `--max-samples`. `expected` is None where nothing is generated.
    """

    folder: str
    kind: str
    decision: str
    reason: str
    budget: int
    existing_responses: int | None
    existing_tokens: int
    answered: int
    remaining_tokens: int
    prompts_left: int
    may_answer: int
    cap: int | None
    expected: Expected | None
    tokenization: str
    tokenization_reason: str
    trainable: Mapping[str, object] | None
    tokenization_s: float | None
    steps: tuple[Step, ...]
    problems: tuple[Problem, ...]

    @property
    def id(self) -> str:
        """`B1` of `B1_glaive`."""
        return dataset_id(self.folder)

    @property
    def works(self) -> bool:
        """Whether the run generates for it."""
        return self.decision in WORKING

    @property
    def rebuilds(self) -> bool:
        """Whether the run tokenizes it, now or after its inference."""
        return self.tokenization in ("rebuild", "after-inference")

    def to_json(self) -> dict[str, Any]:
        """One of `datasets` in `plan --json`."""
        expected = self.expected
        return {
            "id": self.id,
            "name": self.folder,
            "title": dataset_title(self.folder),
            "kind": self.kind,
            "inference": {
                "decision": self.decision,
                "reason": self.reason,
                "existing_responses": self.existing_responses,
                "existing_tokens": self.existing_tokens,
                "remaining_tokens": self.remaining_tokens,
                "prompts_left": self.prompts_left,
                "expected_responses": expected.responses if expected else 0,
                "expected_tokens": expected.tokens if expected else 0,
                "budget": self.budget,
                "answered": self.answered,
                "may_answer": self.may_answer,
                "expected_s": expected.cost.seconds if expected else None,
                "expected_bytes": expected.raw_bytes if expected else 0,
                "mean_tokens": round(expected.mean.tokens, 1) if expected else None,
                "mean_source": expected.mean.source if expected else None,
            },
            "tokenization": {
                "decision": self.tokenization,
                "reason": self.tokenization_reason,
                "trainable": self.trainable,
                "expected_s": self.tokenization_s,
            },
            "steps": [step.to_json() for step in self.steps],
            "problems": [problem.to_json() for problem in self.problems],
        }


def plan_dataset(state: DatasetState, options: Options) -> DatasetPlan:
    """Ask the rules in their order; the first ruling decides, and every rule that was looked at left its steps."""
    found = Findings()
    decision, reason = _rule(state, options, found)
    wanted = options.token_budget.of(state.folder)
    remaining = max(0, wanted - state.tokens)
    may_answer = room(state, options) if decision in WORKING else 0
    expected = expected_work(state, options, may_answer, remaining) if may_answer else None
    if expected is not None:
        _say_work(expected, state, found)
    tokenization, tokenization_reason = _tokenization(state, options, decision, reason, found)
    return DatasetPlan(
        folder=state.folder,
        kind=state.kind,
        decision=decision,
        reason=reason,
        budget=wanted,
        existing_responses=state.responses,
        existing_tokens=state.tokens,
        answered=state.answered,
        remaining_tokens=remaining,
        prompts_left=unanswered(state, options),
        may_answer=may_answer,
        cap=options.max_samples,
        expected=expected,
        tokenization=tokenization,
        tokenization_reason=tokenization_reason,
        trainable=state.tokenization.trainable,
        tokenization_s=state.tokenization.seconds if tokenization in ("rebuild", "after-inference") else None,
        steps=tuple(found.steps),
        problems=tuple(found.problems),
    )


def _rule(state: DatasetState, options: Options, found: Findings) -> tuple[str, str]:
    for rule in RULES:
        ruling = rule(state, options, found)
        if ruling is not None:
            return ruling
    # An unusable or torn record is no answer: a dataset that has only those starts from scratch.
    return ("resume", "partial") if state.answered else ("start", "from-scratch")


def _say_work(expected: Expected, state: DatasetState, found: Findings) -> None:
    """7. What work is to be expected."""
    cost = str(expected.cost)
    found.step(
        "work",
        OK,
        f"about {figures.about(expected.responses)} answers, {figures.about_tokens(expected.tokens)} tokens"
        f"{', ' + cost if cost else ''}, {figures.size(expected.raw_bytes)}",
        f"{expected.mean.tokens:,.0f} tokens an answer, {expected.mean.source}"
        + (f"; {figures.rate(state.rate.tokens_s)}, {state.rate.source}" if state.rate else "; speed not measured yet"),
    )


def _tokenization(
    state: DatasetState, options: Options, decision: str, reason: str, found: Findings
) -> tuple[str, str]:
    """8. Up to date, to be rebuilt and why, or after the inference."""
    if decision == "blocked" or reason in ("not-selected", "missing", "no-prompts", "pretokenized"):
        return "none", reason
    made = state.tokenization
    _say_trainable(made, found)
    if options.retokenize == "never":
        found.step("tokenization", NOTE, "left as it is", "--retokenize never")
        return "skip", "never"
    if decision in WORKING:
        found.step("tokenization", OK, "rebuilt when its inference is done", made.evidence)
        return "after-inference", "new-answers"
    _say_tokenization(made, found)
    seconds = (
        f", about {figures.duration(made.seconds)}" if made.seconds is not None and made.decision == "rebuild" else ""
    )
    words = {"rebuild": "rebuilt", "skip": "left as it is", "none": "nothing to tokenize"}.get(
        made.decision, made.decision
    )
    found.step("tokenization", OK, f"{words}: {made.reason.replace('-', ' ')}{seconds}", made.evidence)
    return made.decision, made.reason


def _say_tokenization(made: Tokenization, found: Findings) -> None:
    """What an operator should know of a rebuild before it is made."""
    if made.reason == WOULD_LOSE:
        found.problem(WARNING, WOULD_LOSE, made.evidence)
    elif made.reason == "fingerprint-changed":
        found.problem(
            WARNING, "fingerprint-changed", f"its rows were made otherwise ({made.evidence}): rebuilt and compared"
        )


def _say_trainable(made: Tokenization, found: Findings) -> None:
    """The rows of the last tokenizing: how many, how long, and why any answer has none."""
    rows = made.trainable or {}
    survive, left_out = rows.get("survive"), rows.get("left_out")
    if isinstance(survive, Mapping):
        fit = ", ".join(f"{count:,} within {int(length):,}" for length, count in survive.items())
        found.step(
            "trainable",
            NOTE,
            f"{rows.get('rows', 0):,} rows, {figures.tokens(_number(rows, 'loss_tokens'))} loss tokens; {fit}",
            TOKENIZED_META,
        )
    if isinstance(left_out, Mapping) and left_out:
        reasons = ", ".join(f"{count:,} {clean(reason, 40)}" for reason, count in left_out.items())
        found.step("left-out", NOTE, f"answers without a row: {reasons}", TOKENIZED_META)


def _number(values: Mapping[str, object], key: str) -> float | None:
    found = values.get(key)
    return float(found) if isinstance(found, (int, float)) else None


@dataclass(frozen=True)
class Totals:
    """Sums over the datasets that work; unknown is None."""

    work: int
    skip: int
    blocked: int
    warnings: int
    answers: int
    tokens: int
    cost: Cost
    raw_bytes: int
    needed_bytes: int
    existing_tokens: int

    def to_json(self) -> dict[str, Any]:
        """`totals` in `plan --json`."""
        return {
            "work": self.work,
            "skip": self.skip,
            "blocked": self.blocked,
            "warnings": self.warnings,
            "expected_responses": self.answers,
            "expected_tokens": self.tokens,
            "expected_s": self.cost.seconds,
            "expected_gpu_h": self.cost.gpu_hours,
            "expected_cost": self.cost.price,
            "expected_bytes": self.raw_bytes,
            "needed_bytes": self.needed_bytes,
            "existing_tokens": self.existing_tokens,
        }


@dataclass(frozen=True)
class Plan:
    """The whole: every dataset in the order of the run, what it takes, what stands in the way, what runs now."""

    options: Options
    datasets: tuple[DatasetPlan, ...]
    totals: Totals
    at: float = 0.0
    preflight: tuple[Check, ...] = ()
    running: tuple[LeftAlone, ...] = ()
    assumptions: tuple[dict[str, Any], ...] = ()
    release: str | None = None
    fingerprint: str | None = None
    engine_model: str | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)

    @property
    def riskiest(self) -> str | None:
        """Folder of the dataset to look at first; None when there is none at all."""
        return max(self.datasets, key=risk).folder if self.datasets else None

    @property
    def changes_something(self) -> bool:
        """Whether a run would generate or rebuild anything."""
        return any(plan.works or plan.rebuilds for plan in self.datasets)

    def to_json(self) -> dict[str, Any]:
        """`plan --json`."""
        return {
            "at": self.at,
            "options": shown_options(self.options),
            "release": self.release,
            "fingerprint": self.fingerprint,
            "engine_model": self.engine_model,
            "sampling": dict(self.sampling),
            "datasets": [dataset.to_json() for dataset in self.datasets],
            "riskiest": self.riskiest,
            "totals": self.totals.to_json(),
            "running": [process.to_json() for process in self.running],
            "writers": [process.to_json() for process in self.running if not process.process.ours],
            "assumptions": [dict(item) for item in self.assumptions],
            "preflight": [check.to_json() for check in self.preflight],
        }


def shown_options(options: Options) -> dict[str, Any]:
    """The options as JSON that anybody may read: addresses without what is secret in them."""
    shown = options.to_json()
    shown["engine_url"] = masked_url(options.engine_url)
    shown["notify"] = [masked_hook(url) for url in options.notify]
    return shown


def run_order(folder: str) -> tuple[int, str]:
    """Sort key of a folder: the declared B1 to B8 first, then all others by name."""
    declared = list(DECLARED)
    return (declared.index(folder) if folder in DECLARED else len(declared), folder)


def plan_root(states: Sequence[DatasetState], options: Options, preflight: Sequence[Check] = ()) -> Plan:
    """The plan of all datasets, with totals and where one's end overlaps the next one's beginning."""
    ordered = sorted(states, key=lambda state: run_order(state.folder))
    plans = _overlaps([plan_dataset(state, options) for state in ordered], options)
    rate: Rate | None = next((state.rate for state in ordered if state.rate is not None), None)
    gpus = next((state.gpus for state in ordered if state.gpus is not None), None)
    return Plan(
        options=options,
        datasets=tuple(plans),
        totals=_totals(plans, preflight, rate, gpus, options),
        at=max((state.at for state in ordered), default=0.0),
        preflight=tuple(preflight),
    )


def with_preflight(plan: Plan, preflight: Sequence[Check]) -> Plan:
    """The same plan with its preflight rows, whose warnings its totals count."""
    warnings = plan.totals.warnings - _preflight_warnings(plan.preflight) + _preflight_warnings(preflight)
    return replace(plan, preflight=tuple(preflight), totals=replace(plan.totals, warnings=warnings))


def risk(plan: DatasetPlan) -> tuple[int, int, int]:
    """How closely to look: blocked, then warned, then resumed on existing answers, then new, then rebuilt."""
    level = 2 if plan.decision == "blocked" else int(any(problem.level == WARNING for problem in plan.problems))
    work = {"resume": 3, "start": 2}.get(plan.decision, int(plan.tokenization == "rebuild"))
    # A warning about a dataset that nothing is done to ranks below work on existing answers.
    return (level if level == 2 or work else 0, work, level)


def _overlaps(plans: list[DatasetPlan], options: Options) -> list[DatasetPlan]:
    """Say where the engine's places pass from a dataset's last answers to the next one (DESIGN §5)."""
    working = [index for index, plan in enumerate(plans) if plan.works]
    for index, following in pairwise(working):
        plan, after = plans[index], plans[following]
        if plan.expected is None:
            continue
        last = min(options.concurrency, plan.expected.responses)
        step = Step(
            "overlap",
            NOTE,
            f"while its last {figures.plural(last, 'answer')} end, {after.id} takes the free places",
            f"--concurrency {options.concurrency}",
        )
        at = next((at + 1 for at, made in enumerate(plan.steps) if made.check == "work"), len(plan.steps))
        plans[index] = replace(plan, steps=(*plan.steps[:at], step, *plan.steps[at:]))
    return plans


def _totals(
    plans: Sequence[DatasetPlan], preflight: Sequence[Check], rate: Rate | None, gpus: int | None, options: Options
) -> Totals:
    expected = [plan.expected for plan in plans if plan.expected is not None]
    tokens = sum(item.tokens for item in expected)
    raw_bytes = sum(item.raw_bytes for item in expected)
    # A rebuild is written whole beside the old file, which is kept: each one needs its full size.
    rows = sum(plan.existing_tokens + (plan.expected.tokens if plan.expected else 0) for plan in plans if plan.rebuilds)
    return Totals(
        work=sum(plan.works for plan in plans),
        skip=sum(plan.decision == "skip" for plan in plans),
        blocked=sum(plan.decision == "blocked" for plan in plans),
        warnings=sum(problem.level == WARNING for plan in plans for problem in plan.problems)
        + _preflight_warnings(preflight),
        answers=sum(item.responses for item in expected),
        tokens=tokens,
        cost=cost_of(tokens, rate, gpus, options),
        raw_bytes=raw_bytes,
        needed_bytes=round(raw_bytes + rows * ROW_BYTES_PER_TOKEN),
        existing_tokens=sum(plan.existing_tokens for plan in plans),
    )


def _preflight_warnings(preflight: Sequence[Check]) -> int:
    return sum(check.level == CHECK_WARNING for check in preflight)
