"""Tokens a second over the last minute, from the moments at which answers were kept."""

from __future__ import annotations

from collections import deque

WINDOW_S = 60.0


class Recent:
    """A sliding window of kept tokens. Times are seconds on one clock."""

    def __init__(self, began_at: float, window_s: float = WINDOW_S) -> None:
        self._began_at = began_at
        self._window_s = window_s
        self._kept: deque[tuple[float, int]] = deque()
        self._tokens = 0

    def add(self, now: float, tokens: int) -> None:
        """An answer was kept."""
        self._kept.append((now, tokens))
        self._tokens += tokens

    def tokens_s(self, now: float) -> float | None:
        """The rate; None before the first answer, 0 when the last one is longer ago than the window."""
        while self._kept and self._kept[0][0] < now - self._window_s:
            self._tokens -= self._kept.popleft()[1]
        if not self._kept and self._tokens == 0 and now - self._began_at < self._window_s:
            return None
        span = min(self._window_s, now - self._began_at)
        return self._tokens / span if span > 0 else None
