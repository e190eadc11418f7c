"""How long answers are: an empirical survival curve that says how long one that still runs will become.

The answers that end first are the short ones, so the mean of those that have ended is too low while many still run. What
is in flight therefore counts as well: as answers that are longer than what they have.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

PRIOR_TOKENS = 2_000
"""The mean answer assumed while there is no record anywhere (DESIGN §4.7)."""
PRIOR_ANSWERS = 5
"""As many of its own answers does what is known of the others count in a dataset's curve."""
_BUCKETS = 1_024


class Curve:
    """Answers by their length, each with a weight; not changed once it is drawn.

    `weights` and `tokens` are those of the answers in each bucket of `width` tokens, the last one open to the right.
    """

    def __init__(self, width: int, weights: Sequence[float], tokens: Sequence[float]) -> None:
        self.weights = weights
        self.tokens = tokens
        self._width = width
        self._weight_from = _sums_to_the_right(weights)
        self._tokens_from = _sums_to_the_right(tokens)

    @classmethod
    def assumed(cls, longest: int, mean: float = PRIOR_TOKENS) -> Curve:
        """Exponential: it forgets, an answer that still runs always has the mean ahead of it."""
        width = _width(longest)
        edges = [bucket * width for bucket in range(_BUCKETS + 1)]
        beyond = [math.exp(-edge / mean) for edge in edges]
        tokens_beyond = [math.exp(-edge / mean) * (edge + mean) for edge in edges]
        return cls(width, _differences([*beyond, 0.0]), _differences([*tokens_beyond, 0.0]))

    @property
    def weight(self) -> float:
        """The weight of all."""
        return self._weight_from[0]

    def mean_beyond(self, decoded: float) -> float:
        """E[length | length > decoded] in tokens; a quarter more than `decoded` where none was ever longer."""
        bucket = min(int(decoded // self._width), _BUCKETS)
        part = max(0.0, min(1.0, 1.0 - (decoded - bucket * self._width) / self._width))
        weight = self._weight_from[bucket + 1] + self.weights[bucket] * part
        if weight <= self.weight * 1e-9:
            return _outrun(decoded)
        total = self._tokens_from[bucket + 1] + self.tokens[bucket] * part
        return max(total / weight, decoded + 1)


class Lengths:
    """A histogram of the lengths of answers that have ended, in tokens, in about a thousand equal buckets up to `longest`:
    memory does not grow."""

    def __init__(self, longest: int, lengths: Iterable[int] = ()) -> None:
        self._width = _width(longest)
        self._counts = [0.0] * (_BUCKETS + 1)
        self._sums = [0.0] * (_BUCKETS + 1)
        self.count = 0
        for length in lengths:
            self.add(length)

    def add(self, length: int, times: int = 1) -> None:
        """Take in `times` answers of `length` tokens."""
        bucket = self._bucket(length)
        self._counts[bucket] += times
        self._sums[bucket] += length * times
        self.count += times

    def curve(self, in_flight: Iterable[float] = (), prior: Curve | None = None) -> Curve:
        """The lengths to expect, with what each answer in flight has decoded so far, in tokens.

        The product-limit estimator of Kaplan and Meier (1958): S(x) = Π (1 - d / n) over the lengths up to x, d answers
        having ended there of n that came so far. It is drawn as Efron (1967) showed it to be: each answer weighs one,
        and one in flight hands its weight on, in equal parts, to all that have come further.

        `prior` counts as `PRIOR_ANSWERS` that have ended: the mean of a Dirichlet process, as Susarla and Van Ryzin (1976)
        give it. So there is something to say of the first answers, and of those that have outrun all that ended.
        Whatever has outrun everything comes to a quarter more.
        """
        counts, sums = list(self._counts), list(self._sums)
        if prior is not None:
            scale = PRIOR_ANSWERS / prior.weight
            counts = [own + other * scale for own, other in zip(counts, prior.weights, strict=True)]
            sums = [own + other * scale for own, other in zip(sums, prior.tokens, strict=True)]
        running = [0] * (_BUCKETS + 1)
        furthest = 0.0
        for decoded in in_flight:
            running[self._bucket(decoded)] += 1
            furthest = max(furthest, decoded)
        ahead = _sums_to_the_right([ended + still for ended, still in zip(counts, running, strict=True)])
        each = 1.0
        for bucket, still in enumerate(running):
            counts[bucket] *= each
            sums[bucket] *= each
            if still and ahead[bucket + 1] > 0:
                each *= 1 + still / ahead[bucket + 1]
            elif still:
                last = _outrun(furthest)
                there = self._bucket(last)
                counts[there] += each * still
                sums[there] += each * still * last
                break
        return Curve(self._width, counts, sums)

    def _bucket(self, tokens: float) -> int:
        return min(int(tokens // self._width), _BUCKETS)


def _width(longest: int) -> int:
    """Tokens a bucket."""
    return max(1, -(-longest // _BUCKETS))


def _outrun(decoded: float) -> float:
    """What an answer comes to that is longer than any before."""
    return decoded * 1.25 + 1


def _sums_to_the_right(values: Sequence[float]) -> list[float]:
    """For each place the sum from there on, and a nought behind the last."""
    return [*accumulate(reversed(values), initial=0.0)][::-1]


def _differences(values: Sequence[float]) -> list[float]:
    """Each value less the one after it."""
    return [here - after for here, after in pairwise(values)]
