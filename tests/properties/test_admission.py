"""Admission for any lengths, budgets and numbers in flight: never short while prompts last, all kept, earliest first."""

from __future__ import annotations

import random
import statistics
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remote.admission import Admission, Track
from remote.lengths import PRIOR_ANSWERS, PRIOR_TOKENS, Curve, Lengths
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
    found = Lengths(LONGEST, lengths).curve().mean_beyond(decoded)
    assert found > decoded
    assert found <= max(*lengths, decoded * 1.25) + LONGEST / 1_000 + 1


@given(lengths=st.lists(st.integers(1, 900), min_size=1, max_size=300), decoded=st.integers(0, 1_000))
def test_the_expectation_is_the_mean_of_the_longer_ones(lengths: list[int], decoded: int) -> None:
    # Up to 1,024 tokens a bucket is one token wide, so the curve is exact.
    longer = [length for length in lengths if length > decoded]
    found = Lengths(1_024, lengths).curve().mean_beyond(decoded)
    at_edge = [length for length in lengths if length >= decoded]
    if longer:
        means = sorted((statistics.mean(longer), statistics.mean(at_edge)))
        assert means[0] - 1.01 <= found <= means[1] + 1.01


@given(
    ended=st.lists(st.integers(1, 900), min_size=1, max_size=60),
    running=st.lists(st.integers(0, 900), max_size=60),
)
def test_the_curve_is_the_product_limit_estimate(ended: list[int], running: list[int]) -> None:
    ended = [*ended, 901]  # so that nothing has outrun everything, which is another rule
    survival, mean, deaths = 1.0, 0.0, Counter(ended)
    for length in sorted(deaths):
        came = sum(other >= length for other in ended + running)
        after = survival * (1 - deaths[length] / came)
        mean += length * (survival - after)
        survival = after
    assert survival == pytest.approx(0)
    assert Lengths(1_024, ended).curve(running).mean_beyond(0) == pytest.approx(mean)


@pytest.mark.parametrize("sigma", [0.6, 1.0])
def test_what_is_still_in_flight_takes_the_bias_out_of_what_has_ended(sigma: float) -> None:
    # Sent one after the other and looked at early: most long answers are among those that still run.
    draw = random.Random(7)
    lengths = [max(1, min(LONGEST, round(draw.lognormvariate(6.5, sigma)))) for _ in range(4_000)]
    elapsed = [draw.uniform(0, 4_000) for _ in lengths]
    ended = [length for length, decoded in zip(lengths, elapsed, strict=True) if length <= decoded]
    running = [decoded for length, decoded in zip(lengths, elapsed, strict=True) if length > decoded]
    true = statistics.mean(lengths)
    assert statistics.mean(ended) < true * 0.93, "the ended ones alone mislead"
    assert Lengths(LONGEST, ended).curve(running).mean_beyond(0) == pytest.approx(true, rel=0.04)


def test_answers_that_have_outrun_everything_come_to_a_quarter_more() -> None:
    curve = Lengths(LONGEST, [100] * 10).curve([1_000.0] * 10)
    assert curve.mean_beyond(1_000) == pytest.approx(1_250, rel=0.01)
    assert curve.mean_beyond(0) == pytest.approx((100 + 1_250) / 2, rel=0.01)
    assert curve.mean_beyond(2_000) == pytest.approx(2_500, rel=0.01)


def test_small_budgets_are_not_far_exceeded() -> None:
    shapes = [Shape(mean, sigma, 100_000, 3) for mean, sigma in ((900, 0.6), (2_200, 0.8))]
    over = [outcome.overshoot for seed in range(8) for outcome in simulate("by expectation", shapes, 64, seed).outcomes]
    assert min(over) >= 0 and statistics.median(over) <= 0.10


def test_little_of_its_own_is_filled_up_with_everyones_and_nothing_with_the_prior() -> None:
    assumed, own, everyone = Curve.assumed(LONGEST), Lengths(LONGEST), Lengths(LONGEST)
    for decoded in (0, 1_000, 5_000):
        found = own.curve(prior=assumed).mean_beyond(decoded)
        assert found - decoded == pytest.approx(PRIOR_TOKENS, rel=0.01), "the prior forgets"
    everyone.add(300, 10_000)
    others = everyone.curve(prior=assumed)
    assert own.curve(prior=others).mean_beyond(0) == pytest.approx(300, rel=0.01)
    own.add(700, 20)
    mixed = (20 * 700 + PRIOR_ANSWERS * 300) / (20 + PRIOR_ANSWERS)
    assert own.curve(prior=others).mean_beyond(0) == pytest.approx(mixed, rel=0.01)
    assert own.curve(prior=others).mean_beyond(500) == pytest.approx(700, rel=0.02)


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
