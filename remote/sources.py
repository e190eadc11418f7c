"""Which prompts of a dataset are still to be asked, in which order: file order, or a seeded shuffle of the whole file.

Resuming goes by id and never by position: a prompt with a usable answer is passed over wherever it stands.
"""

from __future__ import annotations

import os
import random
from collections.abc import Collection, Iterator
from pathlib import Path

from remote.errors import OperatorError
from remote.prompts import Prompt, parse_prompt, read_prompts
from remote.text import clean


class PromptSource:
    """The prompts of one dataset, handed out once each; those set aside come last, for their ids may have changed.

    `answered` and `set_aside` are keys. Raises OperatorError when the file cannot be read, here or later.
    """

    def __init__(self, path: Path, answered: Collection[str], set_aside: Collection[str], shuffle: int | None) -> None:
        self._path = path
        self._answered = answered
        self._set_aside = set_aside
        self._again: list[Prompt] = []
        self._last: list[Prompt] = []
        self._prompts = self._ordered() if shuffle is None else self._shuffled(shuffle)

    def next(self) -> Prompt | None:
        """The next prompt; None when there is none left."""
        prompt = next(self._prompts, None)
        if prompt is not None:
            return prompt
        for rest in (self._again, self._last):
            if rest:
                return rest.pop(0)
        return None

    def put_back(self, prompt: Prompt) -> None:
        """Hand this one out again, after the others."""
        self._again.append(prompt)

    def _wanted(self, prompt: Prompt) -> bool:
        if prompt.key in self._answered:
            return False
        if prompt.key in self._set_aside:
            self._last.append(prompt)
            return False
        return True

    def _ordered(self) -> Iterator[Prompt]:
        return (prompt for prompt in read_prompts(self._path) if self._wanted(prompt))

    def _shuffled(self, seed: int) -> Iterator[Prompt]:
        # Shuffled as a whole, answered ones included, so that a resumed run keeps its order. Only places are kept.
        offsets = [prompt.offset for prompt in read_prompts(self._path)]
        random.Random(seed).shuffle(offsets)
        return (prompt for prompt in self._at(offsets) if self._wanted(prompt))

    def _at(self, offsets: list[int]) -> Iterator[Prompt]:
        try:
            with self._path.open("rb") as file:
                for offset in offsets:
                    file.seek(offset)
                    yield parse_prompt(file.readline().rstrip(b"\n"), offset)
        except (OSError, ValueError) as error:
            why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "it changed meanwhile"
            raise OperatorError(
                "prompts-unreadable", f"{clean(self._path)} cannot be read: {why}", "restart when nothing changes it"
            ) from None
