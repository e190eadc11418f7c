"""The plan of all datasets: every decision in the order of the run, what it takes, what stands in the way.

`dataset_plan.plan_dataset` decides about one; here is what only all of them together can tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from remote import figures
from remote.check import WARNING as CHECK_WARNING
from remote.check import Check
from remote.dataset_plan import DatasetPlan, plan_dataset
from remote.facts import DatasetState, Rate
from remote.forecast import ROW_BYTES_PER_TOKEN, Cost, LeftAlone, cost_of
from remote.layout import DECLARED
from remote.masking import masked_hook, masked_url
from remote.options import Options
from remote.steps import NOTE, WARNING, Step

__all__ = ["DatasetPlan", "Plan", "Totals", "plan_dataset", "plan_root", "risk", "run_order", "with_preflight"]


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
