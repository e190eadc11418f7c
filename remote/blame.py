"""Whose fault a failure is: the prompt's or the engine's.

A prompt that fails five times is given up, but it is set aside only when the engine has well answered a request that was
sent after the failures began: until then the failure is held back. When eight different prompts fail and nobody is
answered, the fault is not theirs: at the start of a run it stops, and later it goes on asking, those that were given up
included, until the engine answers somebody again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from remote.prompts import Prompt

ALIKE = 8
TRIES = 5
MANY_TRIES = 20
"""For failures that are hardly the prompt's own: aborted by somebody else, a connection that breaks on a living engine."""


@dataclass(frozen=True)
class Failure:
    """A prompt that was given up: what a tombstone will say. `certain` when the engine is beyond doubt."""

    folder: str
    prompt: Prompt
    digest: str | None
    kind: str
    detail: str
    certain: bool = False


class Blame:
    """The failures of one run. Times are seconds on one clock that does not go back."""

    def __init__(self) -> None:
        self._answered_ever = False
        self._failing: set[str] = set()
        self._failing_since = float("inf")
        self._held: list[Failure] = []
        self._witnesses: set[str] | None = None

    @property
    def engine_is_failing(self) -> bool:
        """Eight different prompts failed since the engine last answered well, in a run that it has answered before."""
        return self._answered_ever and len(self._failing) >= ALIKE

    def holds(self, folder: str) -> bool:
        """Whether a failure of this dataset is held back."""
        return any(failure.folder == folder for failure in self._held)

    def failed(self, prompt: str, now: float) -> None:
        """An attempt failed in a way that might be the prompt's fault."""
        if not self._failing:
            self._failing_since = now
        self._failing.add(prompt)

    def answered(self, sent_at: float) -> list[Failure]:
        """A request that was sent then was answered well. Returns the failures that are the prompts' own."""
        self._answered_ever = True
        if sent_at < self._failing_since:
            return []
        self._failing.clear()
        self._failing_since = float("inf")
        return self.release()

    def given_up(self, failure: Failure) -> list[Failure]:
        """A prompt is given up. Returns what is to be set aside now."""
        if failure.certain and self._answered_ever:
            return [failure]
        self._held.append(failure)
        kinds = {held.kind for held in self._held}
        if not self._answered_ever and len(self._held) >= ALIKE and len(kinds) > 1:
            return self.release()
        return []

    def alike(self, others: Collection[str]) -> Failure | None:
        """A failure that the first eight prompts of a run share: it has to stop. `others` are the prompts that are being asked.

        A prompt that no engine could answer fails before the first answer can come: eight such prove nothing before all
        that were asked with them have failed too.
        """
        if self._answered_ever or len(self._held) < ALIKE:
            return None
        if self._held[0].certain:
            self._witnesses = set(others) if self._witnesses is None else self._witnesses.intersection(others)
            if self._witnesses:
                return None
        return self._held[0]

    def give_back(self) -> list[Failure]:
        """Prompts that were given up though the engine fails everybody: to be asked again."""
        return self.release() if self.engine_is_failing else []

    def release(self) -> list[Failure]:
        """What is held back, when there is nothing left that could tell whose fault it is."""
        held, self._held = self._held, []
        return held
