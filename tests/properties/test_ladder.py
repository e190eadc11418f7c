"""The ladder of a stop: always up, never past its time, KILL only after everything gentler had its wait."""

from __future__ import annotations

import itertools
import signal

from hypothesis import given
from hypothesis import strategies as st

from remote.ladder import REST_S, Aim, Ladder, Rung, longest_s, rungs

MODES = ("drain", "now", "force", "rest", "stray")
STRENGTH = {"drain": 0, "now": 1, "rest": 1, "stray": 1, "force": 2}
seconds = st.floats(0, 1000)
patience = st.none() | st.floats(0.1, 60)


def climb(ladder: Ladder, start: float, steps: list[float]) -> list[tuple[float, Rung]]:
    """Ask at moments that are `steps` apart, and note what was said."""
    now, said = start, []
    for step in steps:
        rung = ladder.step(now)
        if rung is not None:
            said.append((now, rung))
        now += step
    return said


@given(st.sampled_from(MODES), seconds, patience, st.lists(st.floats(0.01, 400), min_size=1, max_size=60), seconds)
def test_each_rung_comes_once_in_order_and_not_before_the_last_one_had_its_time(
    mode: str, drain_s: float, patience_s: float | None, steps: list[float], start: float
) -> None:
    ladder = Ladder(mode, start, drain_s, patience_s)
    said = climb(ladder, start, steps)
    expected = rungs(mode, drain_s, patience_s)
    assert [rung for _, rung in said] == list(expected[: len(said)]) and said[0][0] == start
    for (before, rung), (after, _) in itertools.pairwise(said):
        assert after >= before + rung.wait_s
    assert ladder.killed == any(rung.signal == signal.SIGKILL for _, rung in said)
    end = start + sum(steps)
    if ladder.exhausted(end):
        assert len(said) == len(expected)
    assert ladder.exhausted(start + longest_s(mode, drain_s, patience_s) + 1e6) == (len(said) == len(expected))


@given(st.sampled_from(MODES), seconds, patience)
def test_asked_when_it_says_it_takes_no_longer_than_it_can(mode: str, drain_s: float, patience_s: float | None) -> None:
    ladder, now, count = Ladder(mode, 0.0, drain_s, patience_s), 0.0, 0
    while not ladder.exhausted(now):
        assert ladder.step(now) is not None
        now += ladder.wait_s(now)
        count += 1
    assert count == len(rungs(mode, drain_s, patience_s))
    assert now <= longest_s(mode, drain_s, patience_s) * (1 + 1e-9) + 1e-6
    assert ladder.killed, "in the end nothing gentler is left"


@given(st.sampled_from(MODES), st.sampled_from(MODES), st.floats(0, 300))
def test_a_stronger_wish_takes_over_at_once_and_a_weaker_one_never(first: str, second: str, later: float) -> None:
    ladder = Ladder(first, 0.0, 120)
    ladder.step(0.0)
    took = ladder.escalate(second, later)
    assert took == (STRENGTH[second] > STRENGTH[first])
    assert ladder.mode == (second if took else first)
    if took:
        assert ladder.step(later) == rungs(second)[0]


@given(st.sampled_from(MODES), st.integers(0, 3), seconds)
def test_what_outlived_its_leader_is_not_kept_waiting_for_it(mode: str, steps: int, drain_s: float) -> None:
    ladder, now = Ladder(mode, 0.0, drain_s), 0.0
    for _ in range(steps):
        if ladder.exhausted(now):
            return
        ladder.step(now)
        now += ladder.wait_s(now) / 2
    ladder.leader_gone(now)
    ladder.leader_gone(now + 0.1)
    while not ladder.exhausted(now):
        rung = ladder.step(now)
        assert rung is None or rung.aim is Aim.ALL
        wait_s = ladder.wait_s(now)
        assert wait_s <= max(REST_S, *(r.wait_s for r in rungs(mode) if r.aim is Aim.ALL)) + 1e-6
        now += wait_s + 0.001
    assert ladder.killed
