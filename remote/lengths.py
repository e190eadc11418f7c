"""How long answers are: an empirical survival curve that says how long one that still runs will become."""

from __future__ import annotations

from collections.abc import Iterable

ENOUGH = 20
"""Records from which a dataset's own lengths are trusted (DESIGN §4.7)."""
PRIOR_TOKENS = 2_000
"""The mean answer assumed while there are fewer than `ENOUGH` records anywhere."""
_BUCKETS = 1_024


class Lengths:
    """A histogram of answer lengths in tokens, in about a thousand equal buckets up to `longest`.

    The curve is brought up to date when one record in two hundred is new: asking costs O(1), memory does not grow.
    """

    def __init__(self, longest: int, lengths: Iterable[int] = ()) -> None:
        self._width = max(1, -(-longest // _BUCKETS))
        self._counts = [0] * (_BUCKETS + 1)
        self._sums = [0] * (_BUCKETS + 1)
        self._count_from: list[int] = []
        self._sum_from: list[int] = []
        self._unseen = 0
        self.count = 0
        self.tokens = 0
        for length in lengths:
            self.add(length)

    def add(self, length: int, times: int = 1) -> None:
        """Take in `times` answers of `length` tokens."""
        bucket = min(length // self._width, _BUCKETS)
        self._counts[bucket] += times
        self._sums[bucket] += length * times
        self.count += times
        self.tokens += length * times
        self._unseen += times

    @property
    def mean(self) -> float:
        """The mean length in tokens. Raises ZeroDivisionError while there is no record."""
        return self.tokens / self.count

    def mean_beyond(self, decoded: float) -> float:
        """E[length | length > decoded] in tokens; a quarter more than `decoded` where none was ever longer."""
        if not self._count_from or self._unseen * 200 >= self.count:
            self._rebuild()
        bucket = min(int(decoded // self._width), _BUCKETS)
        part = max(0.0, min(1.0, 1.0 - (decoded - bucket * self._width) / self._width))
        count = self._count_from[bucket + 1] + self._counts[bucket] * part
        if count < 0.5:
            return decoded * 1.25 + 1
        total = self._sum_from[bucket + 1] + self._sums[bucket] * part
        return max(total / count, decoded + 1)

    def _rebuild(self) -> None:
        self._unseen = 0
        self._count_from = [0] * (_BUCKETS + 2)
        self._sum_from = [0] * (_BUCKETS + 2)
        for bucket in range(_BUCKETS, -1, -1):
            self._count_from[bucket] = self._count_from[bucket + 1] + self._counts[bucket]
            self._sum_from[bucket] = self._sum_from[bucket + 1] + self._sums[bucket]


def expected_length(own: Lengths, everyone: Lengths, decoded: float, limit: int) -> float:
    """What an answer that has `decoded` tokens will come to: own records, else everyone's, else the prior.

    Never more than `limit`, the answer's own token limit. The prior forgets: an answer that still runs has the mean
    ahead of it.
    """
    for lengths in (own, everyone):
        if lengths.count >= ENOUGH:
            return min(float(limit), lengths.mean_beyond(decoded))
    return min(float(limit), decoded + PRIOR_TOKENS)
