"""The plan on random states: what it decides, against the rules of DESIGN §4 written down a second time, plainly."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from remote.facts import DatasetState
from remote.forecast import needless
from remote.options import Budget, Options
from remote.plan import plan_dataset, plan_root, risk, run_order
from remote.state import dataset_state
from tests.support.states import FOLDERS, dataset_states, options, processes

LEGAL = {
    "skip": {"budget-met", "samples-met", "exhausted", "pretokenized", "not-selected", "missing", "no-prompts"},
    "resume": {"partial"},
    "start": {"from-scratch"},
    "blocked": {"faulty"},
}


def decide(state: DatasetState, chosen: Options) -> tuple[str, str]:
    """DESIGN §4, rules 1 to 6, as plainly as they can be said."""
    dataset = state.folder.split("_")[0]
    budget, cap = chosen.token_budget.of(state.folder), chosen.max_samples
    if chosen.datasets is not None and not {state.folder, dataset} & set(chosen.datasets):
        return "skip", "not-selected"
    if not state.exists:
        return "skip", "missing"
    if state.kind == "pretokenized":
        return "skip", "pretokenized"
    if not state.readable:
        return "blocked", "faulty"
    if not state.prompts:
        return "skip", "no-prompts"
    too_many = state.records.unusable >= 20 and state.records.unusable * 100 > (state.responses or 0)
    if too_many and not {"faulty", f"faulty:{dataset}", f"faulty:{state.folder}"} & set(chosen.accept):
        return "blocked", "faulty"
    if budget > 0 and state.tokens >= budget:
        return "skip", "budget-met"
    if budget == 0 and state.answered >= min(cap or state.prompts, state.prompts):
        return "skip", "samples-met"
    if cap is not None and state.answered >= cap:
        return "skip", "samples-met"
    left = state.prompts - state.answered - (0 if chosen.retry_failed else state.set_aside)
    if left <= 0:
        return "skip", "exhausted"
    return ("resume", "partial") if state.answered else ("start", "from-scratch")


@settings(max_examples=150, deadline=None)
@given(dataset_states(), options())
def test_the_first_rule_that_holds_decides(state: DatasetState, chosen: Options) -> None:
    plan = plan_dataset(state, chosen)
    assert (plan.decision, plan.reason) == decide(state, chosen)
    assert plan.reason in LEGAL[plan.decision]


@settings(max_examples=150, deadline=None)
@given(dataset_states(), options())
def test_counts_follow_from_the_state(state: DatasetState, chosen: Options) -> None:
    plan = plan_dataset(state, chosen)
    budget = chosen.token_budget.of(state.folder)
    assert plan.remaining_tokens == max(0, budget - state.tokens)
    assert plan.prompts_left == max(
        0, (state.prompts or 0) - state.answered - (0 if chosen.retry_failed else state.set_aside)
    )
    assert 0 <= plan.may_answer <= plan.prompts_left
    assert plan.works == (plan.may_answer > 0)
    if chosen.max_samples is not None and plan.works:
        assert state.answered + plan.may_answer <= max(chosen.max_samples, state.answered)
    expected = plan.expected
    if plan.works:
        assert expected is not None
        assert 1 <= expected.responses <= plan.may_answer
        if budget:
            reached = state.tokens + expected.tokens >= budget - 1
            assert reached or expected.responses == plan.may_answer
            # One answer less would not do: nothing is planned beyond the budget.
            assert state.tokens + (expected.responses - 1) * expected.mean.tokens < budget
    else:
        assert expected is None


@settings(max_examples=150, deadline=None)
@given(dataset_states(), options())
def test_every_decision_leaves_its_steps(state: DatasetState, chosen: Options) -> None:
    plan = plan_dataset(state, chosen)
    checks = [step.check for step in plan.steps]
    assert checks[0] == "selected"
    outcomes = {step.check: step.outcome for step in plan.steps}
    inference = [step for step in plan.steps if step.check not in ("tokenization",)]
    if plan.decision == "skip":
        assert sum(step.outcome == "skip" for step in inference) == 1
    if plan.decision == "blocked":
        assert sum(step.outcome == "blocked" for step in inference) == 1
        assert [item.level for item in plan.problems].count("blocked") == 1
    if plan.works:
        assert not {"skip", "blocked"} & {step.outcome for step in inference}
    if "budget" in outcomes and chosen.token_budget.of(state.folder) > 0:
        assert outcomes["sample-skip"] == "bypassed"
    assert all(step.because for step in plan.steps)
    assert all("\n" not in step.because + step.evidence for step in plan.steps)


@settings(max_examples=100, deadline=None)
@given(dataset_states(), options())
def test_a_budget_never_makes_the_sample_count_skip(state: DatasetState, chosen: Options) -> None:
    """The bug of the day: a count of samples hid a dataset that still lacked tokens."""
    budget = state.tokens + 1
    asked = replace(chosen, token_budget=Budget(budget), max_samples=None, accept=("faulty",), datasets=None)
    plan = plan_dataset(replace(state, folder="B2_opencodeinstruct"), asked)
    assert plan.reason != "samples-met"
    assert plan.reason != "budget-met"


@settings(max_examples=100, deadline=None)
@given(dataset_states(), options())
def test_a_plan_is_stable_json(state: DatasetState, chosen: Options) -> None:
    first, second = (json.dumps(plan_root([state], chosen).to_json(), allow_nan=False) for _ in range(2))
    assert first == second
    row = json.loads(first)["datasets"][0]
    assert row["name"] == state.folder
    assert {"decision", "reason", "existing_responses", "existing_tokens", "remaining_tokens", "prompts_left"} <= set(
        row["inference"]
    )


@settings(max_examples=100, deadline=None)
@given(dataset_states(), options())
def test_tokenization_goes_with_the_decision(state: DatasetState, chosen: Options) -> None:
    plan = plan_dataset(state, chosen)
    if plan.decision == "blocked" or plan.reason in ("not-selected", "missing", "no-prompts", "pretokenized"):
        assert plan.tokenization == "none"
    elif chosen.retokenize == "never":
        assert not plan.rebuilds
    elif plan.works:
        assert plan.tokenization == "after-inference"
    else:
        assert (plan.tokenization, plan.tokenization_reason) == (state.tokenization.decision, state.tokenization.reason)


@settings(max_examples=150, deadline=None)
@given(st.lists(dataset_states(), max_size=8, unique_by=lambda state: state.folder), options(), st.randoms())
def test_the_whole_is_the_sum_of_its_parts(states: list[DatasetState], chosen: Options, random: object) -> None:
    plan = plan_root(states, chosen)
    random.shuffle(states)  # type: ignore[attr-defined]
    assert plan_root(states, chosen).to_json() == plan.to_json()
    folders = [dataset.folder for dataset in plan.datasets]
    assert folders == sorted(folders, key=run_order)
    totals = plan.totals
    assert totals.work + totals.skip + totals.blocked == len(states)
    assert totals.tokens == sum(dataset.expected.tokens for dataset in plan.datasets if dataset.expected)
    assert totals.answers == sum(dataset.expected.responses for dataset in plan.datasets if dataset.expected)
    if states:
        riskiest = next(dataset for dataset in plan.datasets if dataset.folder == plan.riskiest)
        assert all(risk(dataset) <= risk(riskiest) for dataset in plan.datasets)


@settings(max_examples=150, deadline=None)
@given(dataset_states(), options())
def test_the_state_word_agrees_with_the_plan(state: DatasetState, chosen: Options) -> None:
    """An idle dataset that is selected and readable shows the very reason for which a restart would skip it."""
    asked = replace(chosen, datasets=None, retry_failed=False, accept=("faulty",))
    word = dataset_state(
        asked,
        state.folder,
        kind=state.kind,
        exists=state.exists,
        readable=state.readable,
        prompts=state.prompts,
        tokens=state.tokens,
        answered=state.answered,
        set_aside=state.set_aside,
    )
    plan = plan_dataset(state, asked)
    expected = {"partial": "partial", "from-scratch": "waiting", "faulty": "faulty"}.get(plan.reason, plan.reason)
    assert word == expected


@settings(max_examples=100, deadline=None)
@given(st.lists(dataset_states(), min_size=1, max_size=8, unique_by=lambda state: state.folder), processes(), options())
def test_needless_tokens_follow_the_formula(states: list[DatasetState], process: object, chosen: Options) -> None:
    """DESIGN §6, for a process without a budget of its own."""
    states.sort(key=lambda state: run_order(state.folder))
    stray = replace(process, budget=None)  # type: ignore[type-var]
    left = needless(stray, states, chosen)
    on = [index for index, state in enumerate(states) if state.folder in stray.datasets]
    on = on or [index for index, state in enumerate(states) if state.growing]
    if not on or not stray.flags_known:
        assert left.needless_tokens is None
        return
    total = 0
    for state in states[on[0] :]:
        budget = chosen.token_budget.of(state.folder)
        if state.prompts is None or not budget:
            continue
        own = state.records.usable
        if own >= 20 and state.tokens:
            mean = state.tokens / own
        elif state.all_records and state.all_tokens:
            mean = state.all_tokens / state.all_records
        else:
            mean = 2000
        cap = state.prompts if stray.max_samples is None else min(stray.max_samples, state.prompts)
        total += max(0, round(state.tokens + (cap - state.answered) * mean - max(budget, state.tokens)))
    budgeted = sum(left.by_dataset.get(state.folder, 0) for state in states if chosen.token_budget.of(state.folder))
    assert abs(budgeted - total) <= len(FOLDERS)
    assert left.needless_tokens == sum(left.by_dataset.values())
