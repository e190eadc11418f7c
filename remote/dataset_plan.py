"""What a run does with one dataset, and why: the function that the run executes and the trace shows.

Pure: the same state and options give the same plan, on the container, in a test and in the
generator. There is no second copy of a decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from remote import figures
from remote.facts import DatasetState, Tokenization
from remote.forecast import Expected, expected_work
from remote.layout import TOKENIZED_META, dataset_id, dataset_title
from remote.options import Options
from remote.rules import RULES, room, unanswered
from remote.steps import NOTE, OK, WARNING, Findings, Problem, Step
from remote.text import clean
from remote.tokenization import WOULD_LOSE, reason_words

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
        found.step("tokenization", OK, "to be rebuilt when its inference is done", made.evidence)
        return "after-inference", "new-answers"
    _say_tokenization(made, found)
    seconds = (
        f", about {figures.duration(made.seconds)}" if made.seconds is not None and made.decision == "rebuild" else ""
    )
    words = {"rebuild": "to be rebuilt", "skip": "left as it is", "none": "nothing to tokenize"}.get(
        made.decision, made.decision
    )
    found.step("tokenization", OK, f"{words}: {reason_words(made.reason)}{seconds}", made.evidence)
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
