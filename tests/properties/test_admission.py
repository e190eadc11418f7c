"""Admission for any lengths, budgets and numbers in flight: never short while prompts last, all kept, earliest first."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remote.admission import Admission, Track
from remote.lengths import ENOUGH, PRIOR_TOKENS, Lengths, expected_length
from tests.bench.simulated import LONGEST, Shape, simulate

shapes = st.lists(
    st.builds(
        Shape,
        mean=st.floats(50, 3_000),
        sigma=st.floats(0.1, 1.0),
        budget=st.integers(1_000, 200_000),
        spare=st.floats(0.3, 2.5),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=40, deadline=None)
@given(shapes=shapes, concurrency=st.integers(1, 80), seed=st.integers(0, 10_000))
def test_no_dataset_is_short_while_its_prompts_last_and_all_admitted_is_kept(
    shapes: list[Shape], concurrency: int, seed: int
) -> None:
    result = simulate("by expectation", shapes, concurrency, seed)
    for outcome in result.outcomes:
        assert len(outcome.kept) == outcome.admitted
        assert sum(outcome.kept) >= outcome.budget or outcome.admitted == len(outcome.lengths)
    assert result.wasted_tokens == 0


def test_the_targets_hold_on_a_tenth_of_the_size() -> None:
    shapes = [Shape(900, 0.6, 1_000_000), Shape(2_200, 0.8, 1_000_000), Shape(1_500, 0.7, 1_000_000)]
    results = [simulate("by expectation", shapes, 16, seed) for seed in range(4)]
    over = [outcome.overshoot for result in results for outcome in result.outcomes]
    assert min(over) >= 0 and statistics.median(over) <= 0.005
    assert min(result.full for result in results) >= 0.95
    cancelled = [simulate("cancel at budget", shapes, 16, seed) for seed in range(4)]
    assert all(result.wasted_tokens > 0 for result in cancelled), "the comparison has something to show"


@given(lengths=st.lists(st.integers(1, LONGEST), min_size=1, max_size=200), decoded=st.floats(0, LONGEST * 1.5))
def test_an_answer_becomes_longer_than_what_it_has(lengths: list[int], decoded: float) -> None:
    found = Lengths(LONGEST, lengths).mean_beyond(decoded)
    assert found > decoded
    assert found <= max(*lengths, decoded * 1.25) + LONGEST / 1_000 + 1


@given(lengths=st.lists(st.integers(1, 900), min_size=ENOUGH, max_size=300), decoded=st.integers(0, 1_000))
def test_the_expectation_is_the_mean_of_the_longer_ones(lengths: list[int], decoded: int) -> None:
    # Up to 1,024 tokens a bucket is one token wide, so the curve is exact.
    longer = [length for length in lengths if length > decoded]
    found = expected_length(Lengths(1_024, lengths), Lengths(1_024), decoded, 10_000)
    at_edge = [length for length in lengths if length >= decoded]
    if longer:
        means = sorted((statistics.mean(longer), statistics.mean(at_edge)))
        assert means[0] - 1.01 <= found <= means[1] + 1.01


def test_own_records_come_before_everyones_and_everyones_before_the_prior() -> None:
    own, everyone = Lengths(LONGEST), Lengths(LONGEST)
    assert expected_length(own, everyone, 0, LONGEST) == PRIOR_TOKENS
    everyone.add(300, ENOUGH)
    assert expected_length(own, everyone, 0, LONGEST) == pytest.approx(300, abs=1)
    own.add(700, ENOUGH)
    assert expected_length(own, everyone, 0, LONGEST) == pytest.approx(700, abs=1)
    assert expected_length(own, everyone, 0, 100) == 100


def track(folder: str, budget: int, left: int) -> Track:
    return Track(folder, budget, 0, left, Lengths(LONGEST, [100] * 50))


def test_the_earliest_dataset_that_admits_goes_first_and_later_ones_fill() -> None:
    admission = Admission(4, [track("B3", 200, 10), track("B4", 0, 10)], LONGEST)
    order = []
    for number in range(4):
        folder = admission.next(0.0)
        assert folder is not None
        order.append(folder)
        admission.admit(folder, str(number), 0.0, LONGEST)
    assert order[0] == "B3" and order[-1] == "B4"
    assert admission.next(0.0) is None, "no place is free"


def test_a_paused_admission_admits_nobody_and_a_new_budget_holds_at_once() -> None:
    admission = Admission(4, [track("B3", 1_000, 10)], LONGEST)
    admission.paused = True
    assert admission.next(0.0) is None
    admission.paused = False
    assert admission.next(0.0) == "B3"
    admission.set_budget("B3", 0)
    assert admission.next(0.0) == "B3"
    admission.tracks["B3"].tokens = 500
    admission.set_budget("B3", 400)
    assert admission.next(0.0) is None and admission.tracks["B3"].finished


def test_a_prompt_that_is_given_back_can_be_admitted_again() -> None:
    admission = Admission(4, [track("B3", 0, 1)], LONGEST)
    admission.admit("B3", "a", 0.0, LONGEST)
    assert admission.next(0.0) is None
    admission.dropped("B3", "a", back=True)
    assert admission.next(0.0) == "B3"
    admission.admit("B3", "a", 0.0, LONGEST)
    admission.dropped("B3", "a")
    assert admission.next(0.0) is None and admission.finished
