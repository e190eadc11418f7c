"""Prompts that may have killed the engine: two crashes with the same prompt in flight make it a suspect.

A suspect is set aside at once, so that a run does not kill its engine again and again. At the end, if its dataset still
needs it, it is asked alone: only then is an innocent told from the one that kills.
"""

from __future__ import annotations

from collections.abc import Iterable

CRASHES = 2


class Suspects:
    """How many crashes each prompt was part of in this run; keys are whatever names a prompt across datasets."""

    def __init__(self) -> None:
        self._crashes: dict[str, int] = {}

    def crashed(self, in_flight: Iterable[str]) -> frozenset[str]:
        """The engine died with these in flight. Returns those that are suspects by now."""
        found = set()
        for key in in_flight:
            self._crashes[key] = self._crashes.get(key, 0) + 1
            if self._crashes[key] >= CRASHES:
                found.add(key)
        return frozenset(found)

    def crashes(self, key: str) -> int:
        """How many crashes this prompt was part of."""
        return self._crashes.get(key, 0)

    def cleared(self, key: str) -> None:
        """It was answered."""
        self._crashes.pop(key, None)
