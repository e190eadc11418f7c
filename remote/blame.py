"""Whose fault a failure is: the prompt's or the engine's.

A prompt that fails five times while others are answered is set aside. When eight different prompts fail alike and none
was answered, the fault is not theirs: at the start of a run it stops and sets nobody aside; later it waits, and no try is
used up until the engine answers somebody again.
"""

from __future__ import annotations

from dataclasses import dataclass

ALIKE = 8
TRIES = 5
MANY_TRIES = 20
"""For failures that are hardly the prompt's own: aborted by somebody else, a connection that breaks on a living engine."""


@dataclass(frozen=True)
class Failure:
    """A prompt that was given up: what a tombstone will say."""

    folder: str
    key: str
    digest: str | None
    kind: str
    detail: str


class Blame:
    """The failures of one run."""

    def __init__(self) -> None:
        self._answered_ever = False
        self._failing: set[str] = set()
        self._held: list[Failure] = []
        self._kinds: set[str] = set()

    @property
    def engine_is_failing(self) -> bool:
        """Eight different prompts failed since somebody was last answered, in a run that has been answered before."""
        return self._answered_ever and len(self._failing) >= ALIKE

    def answered(self) -> list[Failure]:
        """An answer was kept. Returns the failures held back until now, to be set aside."""
        self._answered_ever = True
        self._failing.clear()
        return self.release()

    def failed(self, prompt: str) -> None:
        """An attempt failed in a way that might be the prompt's fault."""
        self._failing.add(prompt)

    def given_up(self, failure: Failure) -> list[Failure]:
        """A prompt is given up. Returns what is to be set aside now: nothing while the run has no answer yet."""
        if self._answered_ever:
            return [failure]
        self._held.append(failure)
        self._kinds.add(failure.kind)
        if len(self._held) >= ALIKE and len(self._kinds) > 1:
            return self.release()
        return []

    @property
    def alike(self) -> Failure | None:
        """A failure that the first eight prompts of the run share: the run has to stop."""
        if self._answered_ever or len(self._held) < ALIKE or len(self._kinds) != 1:
            return None
        return self._held[0]

    def release(self) -> list[Failure]:
        """What was held back, at the end of a run that was not stopped by it."""
        held, self._held = self._held, []
        self._kinds.clear()
        return held
