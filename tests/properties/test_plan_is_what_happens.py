"""What the plan says is what the run does: random small roots through both, and what was said compared with what is there."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from remote.exitcodes import ExitCode
from remote.layout import PROMPTS, RESPONSES, TOKENIZED, Layout
from remote.model import read_model
from remote.options import Budget, Options
from remote.plan import DatasetPlan, Plan
from remote.planning import make_plan
from remote.preparing import scan_now
from remote.surroundings import look_around
from tests.support.engine import StandIn, stand_in
from tests.support.generating import ids_prompt, make_options, run_here
from tests.support.tree import line, write_lines

FOLDERS = ("B3_magicoder", "B5_openthoughts", "B8_sweagent", "X_other")


@pytest.fixture(scope="module")
def engine() -> Iterator[StandIn]:
    with stand_in(mean_tokens=40) as engine:
        yield engine


@dataclass(frozen=True)
class Dataset:
    """One dataset of a random root: `answers` are (place of the prompt, tokens, usable)."""

    prompts: int | None
    answers: tuple[tuple[int, int, bool], ...]
    torn: bool
    pretokenized: bool

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        if self.prompts is not None:
            write_lines(folder / PROMPTS, (ids_prompt(f"p{place}", 20, 50 + place) for place in range(self.prompts)))
        if self.answers:
            write_lines(folder / RESPONSES, (_answer(*answer) for answer in self.answers))
        if self.torn and self.answers:
            with (folder / RESPONSES).open("ab") as file:
                file.write(line(_answer(99, 8, True))[:-9])
        if self.pretokenized:
            write_lines(folder / TOKENIZED, [{"sample_id": "a", "input_ids": [1, 2], "loss_mask": [0, 1]}])


def _answer(place: int, tokens: int, usable: bool) -> dict[str, Any]:
    ids = [60 + number for number in range(tokens)]
    return {
        "sample_id": f"p{place}",
        "output_ids": ids,
        "prompt_tokens": 2,
        "completion_tokens": tokens if usable else tokens + 1,
        "finish_reason": "length",
    }


datasets = st.builds(
    Dataset,
    prompts=st.one_of(st.integers(4, 12), st.integers(4, 12), st.integers(0, 3), st.none()),
    answers=st.integers(0, 10).flatmap(
        lambda count: st.lists(
            st.tuples(st.integers(0, 13), st.integers(1, 90), st.sampled_from([True, True, False])),
            min_size=count,
            max_size=count,
        ).map(tuple)
    ),
    torn=st.booleans(),
    pretokenized=st.booleans(),
)
roots = st.fixed_dictionaries({folder: datasets for folder in FOLDERS})
budgets = st.builds(
    Budget,
    st.sampled_from([0, 1, 150, 400, 100_000]),
    st.dictionaries(st.sampled_from(["B3", "B8"]), st.sampled_from([0, 200])),
)
caps = st.one_of(st.none(), st.integers(1, 12))


def planned(root: Path, options: Options) -> Plan:
    layout = Layout(root)
    plan, _states = make_plan(
        layout, scan_now(layout, read_model(options.model_path)), options, look_around(layout, options)
    )
    return plan


def check_done(before: DatasetPlan, after: DatasetPlan, options: Options, grown: bool) -> None:
    """One dataset: the decision before the run against what is there after it."""
    event(f"{before.decision} {before.reason}")
    new = after.answered - before.answered
    assert (new > 0) == grown == before.works
    if not before.works:
        assert (after.decision, after.reason) == (before.decision, before.reason)
        return
    assert 0 < new <= before.may_answer
    budget = options.token_budget.of(before.folder)
    if budget == 0:
        assert new == before.may_answer
    else:
        assert before.existing_tokens < budget
        assert after.existing_tokens >= budget or new == before.may_answer
    assert after.decision == "skip" and after.reason in ("budget-met", "samples-met", "exhausted")


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    root_of=roots, budget=budgets, cap=caps, concurrency=st.sampled_from([1, 3, 16]), shuffle=st.sampled_from([None, 5])
)
def test_the_plan_is_what_happens(
    engine: StandIn,
    root_of: dict[str, Dataset],
    budget: Budget,
    cap: int | None,
    concurrency: int,
    shuffle: int | None,
) -> None:
    root = Path(tempfile.mkdtemp(prefix="eagle3-plan-"))
    try:
        for folder, dataset in root_of.items():
            dataset.write(root / folder)
        options = make_options(
            root, engine.url, budget=budget, max_samples=cap, concurrency=concurrency, shuffle=shuffle
        )
        before = {plan.folder: plan for plan in planned(root, options).datasets}
        sizes = {folder: _bytes(root / folder / RESPONSES) for folder in before}
        ran = run_here(options)
        assert ran.code == ExitCode.DONE, ran.log
        for plan in before.values():
            assert f" {plan.id} {plan.decision}: {plan.reason}" in ran.log
        for plan in planned(root, options).datasets:
            kept = _bytes(root / plan.folder / RESPONSES)
            was = sizes[plan.folder]
            check_done(before[plan.folder], plan, options, len(kept) > len(was))
            whole = was[: was.rfind(b"\n") + 1]
            assert kept.startswith(whole), "nothing that was there is changed"
    finally:
        shutil.rmtree(root)


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""
