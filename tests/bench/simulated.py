"""The engine and the clock, simulated: the run's own admission code, ten million tokens a dataset, in seconds.

A place decodes at a steady speed with some jitter from request to request; answers are lognormal, cut at the token limit.
Beside the run's policy two simple ones work on the same answers: one that cancels what is in flight when a dataset's
tokens reach its budget, and one that lets it finish but takes one dataset after the other.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from remote.admission import Admission, Track
from remote.lengths import Lengths

LONGEST = 16_384
TOKENS_S = 50.0
JITTER = 0.1


@dataclass(frozen=True)
class Shape:
    """One dataset: the mean and sigma of its answers, its budget, and how much longer its prompts would last."""

    mean: float
    sigma: float
    budget: int
    spare: float = 1.6

    def lengths(self, seed: int) -> list[int]:
        """The length of each prompt's answer, in file order."""
        draw = random.Random(f"{seed} {self.mean} {self.sigma}")
        mu = math.log(self.mean) - self.sigma**2 / 2
        count = round(self.budget / self.mean * self.spare)
        return [max(2, min(LONGEST, round(draw.lognormvariate(mu, self.sigma)))) for _ in range(count)]


@dataclass
class Outcome:
    """What one dataset came to: its answers' lengths, those kept and those admitted, and the budget."""

    lengths: list[int]
    budget: int
    kept: list[int] = field(default_factory=list)
    tokens: int = 0
    admitted: int = 0

    def keep(self, tokens: int) -> None:
        """An answer ended well."""
        self.kept.append(tokens)
        self.tokens += tokens

    @property
    def overshoot(self) -> float:
        """Tokens beyond the budget, as a share of it; negative when it fell short."""
        return self.tokens / self.budget - 1

    @property
    def bias(self) -> float:
        """The mean kept length against the mean of all its prompts, less one."""
        return (self.tokens / len(self.kept)) / (sum(self.lengths) / len(self.lengths)) - 1


@dataclass
class Result:
    """A whole run: a result per dataset, the share of places kept full while work was left, tokens decoded for nothing."""

    outcomes: list[Outcome]
    full: float
    wasted_tokens: float
    seconds: float


class Policy(Protocol):
    """Who is next, told of what happens."""

    def next(self, now: float) -> int | None:
        """The dataset for a free place."""

    def admitted(self, dataset: int, key: int, now: float) -> None:
        """It took one."""

    def finished(self, dataset: int, key: int, now: float, tokens: int) -> bool:
        """An answer ended; True when the rest of its dataset's answers in flight is to be cancelled."""


class Ours:
    """The run's own admission."""

    def __init__(self, outcomes: Sequence[Outcome], concurrency: int) -> None:
        tracks = [
            Track(str(place), outcome.budget, 0, len(outcome.lengths), Lengths(LONGEST))
            for place, outcome in enumerate(outcomes)
        ]
        self._admission = Admission(concurrency, tracks, LONGEST)

    def next(self, now: float) -> int | None:
        folder = self._admission.next(now)
        return None if folder is None else int(folder)

    def admitted(self, dataset: int, key: int, now: float) -> None:
        self._admission.admit(str(dataset), str(key), now, LONGEST)

    def finished(self, dataset: int, key: int, now: float, tokens: int) -> bool:
        self._admission.kept(str(dataset), str(key), now, tokens)
        return False


class CancelAtBudget:
    """Fill the places; when a dataset's finished tokens reach its budget, cancel what it has in flight."""

    def __init__(self, outcomes: Sequence[Outcome], _concurrency: int) -> None:
        self._outcomes = outcomes

    def next(self, _now: float) -> int | None:
        for place, outcome in enumerate(self._outcomes):
            if outcome.tokens < outcome.budget and outcome.admitted < len(outcome.lengths):
                return place
        return None

    def admitted(self, dataset: int, key: int, now: float) -> None:
        return

    def finished(self, dataset: int, _key: int, _now: float, _tokens: int) -> bool:
        outcome = self._outcomes[dataset]
        return outcome.tokens >= outcome.budget


class OneAtATime(CancelAtBudget):
    """Fill the places from one dataset until its finished tokens reach the budget, let the rest finish, then the next."""

    def __init__(self, outcomes: Sequence[Outcome], concurrency: int) -> None:
        super().__init__(outcomes, concurrency)
        self._in_flight: set[tuple[int, int]] = set()

    def next(self, now: float) -> int | None:
        place = super().next(now)
        if place is None or any(dataset != place for dataset, _ in self._in_flight):
            return None
        return place

    def admitted(self, dataset: int, key: int, now: float) -> None:
        self._in_flight.add((dataset, key))

    def finished(self, dataset: int, key: int, now: float, tokens: int) -> bool:
        self._in_flight.discard((dataset, key))
        return False


POLICIES: dict[str, Callable[[Sequence[Outcome], int], Policy]] = {
    "by expectation": Ours,
    "cancel at budget": CancelAtBudget,
    "one at a time": OneAtATime,
}


def simulate(policy_name: str, shapes: Sequence[Shape], concurrency: int, seed: int) -> Result:
    """One run to its end."""
    outcomes = [Outcome(shape.lengths(seed), shape.budget) for shape in shapes]
    policy = POLICIES[policy_name](outcomes, concurrency)
    draw = random.Random(seed)
    ends: list[tuple[float, int, int]] = []
    sent: dict[tuple[int, int], float] = {}
    now = area = full_area = full_time = wasted = 0.0
    while True:
        while len(sent) < concurrency:
            dataset = policy.next(now)
            if dataset is None:
                break
            outcome = outcomes[dataset]
            key, outcome.admitted = outcome.admitted, outcome.admitted + 1
            speed = TOKENS_S * draw.lognormvariate(0, JITTER)
            sent[dataset, key] = now
            heapq.heappush(ends, (now + outcome.lengths[key] / speed, dataset, key))
            policy.admitted(dataset, key, now)
            # Work was left until now: what came before counts as time in which places could have been full.
            full_area, full_time = area, now
        if not ends:
            break
        at, dataset, key = heapq.heappop(ends)
        if (dataset, key) not in sent:
            continue
        area += len(sent) / concurrency * (at - now)
        now = at
        del sent[dataset, key]
        tokens = outcomes[dataset].lengths[key]
        outcomes[dataset].keep(tokens)
        if policy.finished(dataset, key, now, tokens):
            for other in [pair for pair in sent if pair[0] == dataset]:
                wasted += min(outcomes[dataset].lengths[other[1]], (now - sent.pop(other)) * TOKENS_S)
    return Result(outcomes, full_area / full_time if full_time else 1.0, wasted, now)
