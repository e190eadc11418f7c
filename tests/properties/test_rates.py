"""Rates and ETA are what the tokens say, whenever and however often one looks."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.model import Decision
from console.rates import LEAST_S, WINDOW_S, RateHistory, advance, etas, measured, rates, totals
from console.settling import SETTLED_S
from console.view import Rate
from tests.support.views import AT, BUDGET, dataset, generator, snapshot

FOLDER = "B4_mixturethoughts"


def seen(history: RateHistory, at: float, tokens: int, steady_s: float | None = None) -> RateHistory:
    made = snapshot(at=at, datasets=(dataset(tokens=tokens),))
    return advance(history, made, at - AT if steady_s is None else steady_s)


@given(st.integers(1, 5000), st.floats(0.2, 10), st.integers(3, 200))
def test_a_steady_growth_is_measured_exactly(tokens_s: int, gap_s: float, looks: int) -> None:
    history = RateHistory()
    for look in range(looks):
        history = seen(history, AT + look * gap_s, round(tokens_s * look * gap_s))
    rate = measured(history, FOLDER)
    span_s = (looks - 1) * gap_s
    if span_s < LEAST_S - 1e-3:
        assert rate is None or gap_s < 0.5
    elif span_s > LEAST_S + 1e-3:
        assert rate == pytest.approx(tokens_s, rel=0.02, abs=0.2)


@given(st.lists(st.tuples(st.floats(0.1, 60), st.integers(0, 20_000)), min_size=1, max_size=80))
def test_a_rate_is_never_negative_and_never_more_than_the_window_allows(steps: list[tuple[float, int]]) -> None:
    history, at, tokens = RateHistory(), AT, 0
    for gap_s, grown in steps:
        at, tokens = at + gap_s, tokens + grown
        history = seen(history, at, tokens)
    rate = measured(history, FOLDER)
    assert rate is None or 0 <= rate <= sum(grown for _, grown in steps) / LEAST_S
    marks = history.marks[FOLDER]
    assert all(one.at < other.at for one, other in pairwise(marks))
    assert sum(mark.at < at - WINDOW_S for mark in marks) <= 1, "older marks are dropped"


def test_a_rate_forgets_what_was_before_the_window() -> None:
    history = RateHistory()
    for second in range(0, 300):
        history = seen(history, AT + second, 100 * min(second, 100))
    assert measured(history, FOLDER) == pytest.approx(0, abs=1)


def test_a_file_that_was_cut_starts_anew() -> None:
    history = RateHistory()
    for second in range(60):
        history = seen(history, AT + second, 1000 * second)
    history = seen(history, AT + 60, 10)
    assert measured(history, FOLDER) is None


@pytest.mark.parametrize("step_s", [-600, -1, 600])
def test_a_stepped_clock_starts_anew(step_s: float) -> None:
    history = RateHistory()
    for second in range(60):
        history = seen(history, AT + second, 1000 * second)
    stepped = seen(history, AT + 60 + step_s, 61_000, steady_s=60.0)
    assert (measured(stepped, FOLDER) is None) == (abs(step_s) > 5)


def test_the_generators_own_rate_is_used_until_a_window_has_formed() -> None:
    made = snapshot(datasets=(dataset(rate_tokens_s=123.0),))
    assert rates(advance(RateHistory(), made, 0), made) == {FOLDER: Rate(123.0, "progress")}
    assert rates(RateHistory(), snapshot(datasets=(dataset(in_work=False, rate_tokens_s=5.0),))) == {}


def test_datasets_wait_for_those_before_them() -> None:
    rows = (
        dataset("B3_magicoder", tokens=90_000),
        dataset("B4_mixturethoughts", tokens=50_000),
        dataset("B5_openthoughts", tokens=100_000, inference=Decision("skip", "budget-met")),
        dataset("B6_ultrachat", tokens=0, answered=0, in_work=False),
    )
    made = snapshot(datasets=rows)
    found = etas(made, {"B3_magicoder": Rate(60.0, "counted"), "B4_mixturethoughts": Rate(40.0, "counted")})
    assert found == {"B3_magicoder": 100.0, "B4_mixturethoughts": 600.0, "B6_ultrachat": 1600.0}
    assert totals(made, {}, found).eta_s == 1600.0


def test_no_more_is_expected_than_the_prompts_can_give() -> None:
    row = dataset(tokens=30_000, answered=30, prompts_left=10)
    assert etas(snapshot(datasets=(row,)), {FOLDER: Rate(100.0, "counted")}) == {FOLDER: 100.0}


@pytest.mark.parametrize("changes", [{"paused": True}, {"draining": True}, {"verdict": "exited"}, {"verdict": "lost"}])
def test_nothing_is_promised_while_nothing_is_admitted(changes: dict[str, object]) -> None:
    made = snapshot(generator=generator(**changes))
    assert etas(made, {FOLDER: Rate(100.0, "counted")}) == {}


def test_without_a_rate_there_is_no_eta() -> None:
    assert etas(snapshot(generator=generator(rate_tokens_s=None)), {}) == {}


def test_an_unknown_part_makes_a_sum_unknown() -> None:
    rows = (dataset(), replace(dataset("B5_openthoughts"), tokens=None))
    assert totals(snapshot(datasets=rows), {}, {}).tokens is None
    assert totals(snapshot(datasets=rows), {}, {}).budget == 2 * BUDGET


@given(st.lists(st.integers(0, 3 * BUDGET), min_size=2, max_size=8))
def test_what_one_is_past_its_budget_fills_no_other(tokens: list[int]) -> None:
    rows = tuple(replace(dataset(tokens=count, budget=BUDGET), folder=f"B{at}_x") for at, count in enumerate(tokens))
    found = totals(snapshot(datasets=rows), {}, {})
    assert found.tokens == sum(tokens) and found.budgeted_tokens is not None and found.budget is not None
    assert (found.budgeted_tokens == found.budget) == all(count >= BUDGET for count in tokens)


def test_a_dataset_that_is_tokenized_has_no_rate_rather_than_one_of_0() -> None:
    done = dataset(state="tokenizing", rate_tokens_s=0.0)
    assert rates(RateHistory(), snapshot(datasets=(done,))) == {}
    history = seen(seen(RateHistory(), AT, 0), AT + 60, 6_000)
    assert rates(history, snapshot(datasets=(done,))) == {FOLDER: Rate(100.0, "counted")}, (
        "its last answers still count"
    )


@given(st.integers(0, 200), st.integers(0, 256), st.floats(0, 2 * SETTLED_S))
def test_no_time_is_told_before_as_many_answers_have_come_as_are_in_flight(
    answers: int, in_flight: int, age_s: float
) -> None:
    made = snapshot(generator=generator(since=AT - age_s, answers=answers, in_flight=in_flight))
    told = bool(etas(made, {FOLDER: Rate(3.0, "counted")}))
    assert told == (age_s >= SETTLED_S or (answers > 0 and answers >= in_flight))


@settings(deadline=None, max_examples=40)
@given(st.integers(16, 64), st.integers(20, 60), st.integers(2000, 6000), st.integers(20, 40))
def test_the_first_time_to_go_is_not_absurdly_long(places: int, speed: int, mean: int, spread: int) -> None:
    """A run simulated: `places` answers at a time, each `speed` tokens a second, lengths from a twentieth to twice the `mean`."""
    lengths = [mean * (1 + number * 7 % spread) // (1 + spread // 2) for number in range(places * 6)]
    ends, whole = [0.0] * places, []
    for number, length in enumerate(lengths):
        begins = ends[number % places]
        ends[number % places] = begins + length / speed
        whole.append((ends[number % places], length))
    whole.sort()
    total = sum(lengths)
    history, answers, tokens = RateHistory(), 0, 0
    for at_s, length in whole:
        answers, tokens = answers + 1, tokens + length
        row = dataset(tokens=tokens, answered=answers, budget=total, prompts_left=10**6)
        made = snapshot(at=AT + at_s, datasets=(row,), generator=generator(since=AT, answers=answers, in_flight=places))
        history = advance(history, made, at_s)
        told = etas(made, rates(history, made)).get(FOLDER)
        if told is not None and measured(history, FOLDER) is not None:
            left = max(ends) - at_s
            assert told < left * 3, f"{answers} answers at {at_s:.0f} s: {told:.0f} s told, {left:.0f} s left"
            return
    raise AssertionError("no time was ever told")
