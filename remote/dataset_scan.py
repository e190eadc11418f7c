"""What one look at a dataset says: immutable, printable, and true for the moment it was made."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from remote.classes import Classes
from remote.layout import dataset_id, dataset_title
from remote.problems import Problem
from remote.text import clean

PROMPT_DATASET = "prompts"
PRETOKENIZED = "pretokenized"
APPENDING_STATES = frozenset({"running", "draining"})


@dataclass(frozen=True)
class FileFacts:
    """One of a dataset's three files. Times are seconds since the epoch by the container's clock.

    `lines` are complete and not blank; `tail_bytes` follow the last newline; `reason` says
    why it cannot be read; `growing_since` is set while somebody appends.
    """

    name: str
    present: bool
    readable: bool
    reason: str | None = None
    size_bytes: int | None = None
    mtime_s: float | None = None
    lines: int | None = None
    tail_bytes: int = 0
    growing_since: float | None = None


class Contents:
    """The ids behind a scan. They may still lie packed in the index until somebody asks."""

    __slots__ = ("_unpack", "names", "number", "order", "rows", "tokens", "used")

    def __init__(self, unpack: Callable[[], None] | None = None) -> None:
        self._unpack = unpack
        self.names: list[str] = []
        self.order = self.number = self.tokens = self.used = self.rows = array("I")

    def fill(
        self,
        names: list[str],
        order: array[int],
        number: array[int],
        tokens: array[int],
        used: array[int],
        rows: array[int],
    ) -> None:
        """Set what `ready` promises."""
        self.names, self.order, self.number = names, order, number
        self.tokens, self.used, self.rows = tokens, used, rows
        self._unpack = None

    def ready(self) -> Contents:
        """Itself, unpacked."""
        if self._unpack is not None:
            self._unpack()
        return self


@dataclass(frozen=True)
class Extent:
    """How far a scan reaches into the growing arrays of its contents."""

    prompts: int = 0
    used: int = 0
    rows: int = 0


@dataclass(frozen=True)
class DatasetScan:
    """One dataset. Counts that cannot be known are None, never 0.

    `kind` is `prompts` or `pretokenized`; `prompts` counts usable unique prompts; `responses`
    and `tokenized` count complete lines; `tokens` sums the records that count (valid and
    repairable), whose number is `answered`; `lengths` is their histogram over
    `classes.LENGTH_EDGES`; `no_eos` those that stopped without an end-of-sequence id;
    `growing_since` is when somebody was first seen appending answers, in seconds since the
    epoch. `version` changes whenever anything here does.
    """

    folder: str
    kind: str
    exists: bool
    readable: bool
    prompts: int | None
    responses: int | None
    tokenized: int | None
    tokens: int | None
    finish_reasons: Mapping[str, int]
    classes: Classes
    problems: tuple[Problem, ...]
    no_eos: int
    answered: int
    trailing_assistant: int
    forms: Mapping[str, int]
    lengths: tuple[int, ...]
    files: tuple[FileFacts, ...]
    growing_since: float | None = None
    version: int = 0
    contents: Contents = field(default_factory=Contents, compare=False, repr=False)
    extent: Extent = field(default_factory=Extent, repr=False)

    @property
    def id(self) -> str:
        """`B1` of `B1_glaive`."""
        return dataset_id(self.folder)

    @property
    def title(self) -> str:
        """The name that people read."""
        return dataset_title(self.folder)

    @property
    def prompts_left(self) -> int | None:
        """Prompts without a usable answer; None where there is no prompts file."""
        return None if self.prompts is None else self.prompts - self.answered

    def file(self, name: str) -> FileFacts:
        """The facts of one of the three files by its name. Raises KeyError."""
        for facts in self.files:
            if facts.name == name:
                return facts
        raise KeyError(name)

    def prompt_keys(self) -> list[str]:
        """The usable prompts' ids as text, in file order."""
        contents = self.contents.ready()
        return [contents.names[number] for number in contents.order[: self.extent.prompts]]

    def answered_ids(self) -> set[str]:
        """The ids that have a usable answer."""
        return set(self._used_names())

    def answer_lengths(self) -> list[int]:
        """Tokens of each answer that counts, in file order."""
        contents = self.contents.ready()
        return [contents.tokens[place] for place in contents.used[: self.extent.used]]

    def tokenized_ids(self) -> set[str]:
        """The ids that have a good training row."""
        contents = self.contents.ready()
        return {contents.names[number] for number in contents.rows[: self.extent.rows]}

    def untokenized_ids(self) -> list[str]:
        """Answered ids without a training row, in the order of the answers."""
        rows = self.tokenized_ids()
        return [name for name in self._used_names() if name not in rows]

    def _used_names(self) -> list[str]:
        contents = self.contents.ready()
        return [contents.names[contents.number[place]] for place in contents.used[: self.extent.used]]

    def to_json(self, state: str, budget: int) -> dict[str, Any]:
        """One element of `scan --json`. While somebody writes, a half line is unfinished, not torn."""
        classes = self.classes.to_json()
        problems = self.problems
        if state in APPENDING_STATES:
            classes["torn"] = 0
            problems = tuple(problem for problem in problems if problem.code != "torn")
        return {
            "id": clean(self.id, 60),
            "name": clean(self.folder, 255),
            "title": clean(self.title, 120),
            "kind": self.kind,
            "state": state,
            "prompts": self.prompts,
            "responses": self.responses,
            "tokenized": self.tokenized,
            "tokens": self.tokens,
            "budget": budget,
            "finish_reasons": dict(self.finish_reasons),
            "schema": {**classes, "problems": [problem.to_json() for problem in problems]},
        }
