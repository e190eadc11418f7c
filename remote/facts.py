"""What a plan knows about one dataset: everything it decides by, and nothing else.

`gather` reads these from the scanner's memory and the small files beside the data; the rules
are pure functions of them, so that a test can make any state there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from remote.fingerprint import Fingerprint
from remote.model import ModelFacts, Sampling
from remote.options import Budget, is_named
from remote.probe import EngineFacts

PROMPTS_KIND = "prompts"
PRETOKENIZED_KIND = "pretokenized"


@dataclass(frozen=True)
class RecordCounts:
    """How many records of raw_responses.jsonl are in each class (see docs/files.md)."""

    valid: int = 0
    repairable: int = 0
    unusable: int = 0
    duplicates: int = 0
    orphans: int | None = 0
    torn: int = 0

    @property
    def usable(self) -> int:
        """Records whose tokens count: valid and repairable ones."""
        return self.valid + self.repairable


@dataclass(frozen=True)
class Process:
    """A process that writes, or is about to write, under the root: what its flags say it will do.

    `max_samples`, `budget` and `selected` are None when they were not given; `flags_known` is False when
    its command line could not be read or understood. `since` is seconds since 1970.
    """

    pid: int
    ours: bool = False
    since: float | None = None
    argv: tuple[str, ...] = ()
    max_samples: int | None = None
    budget: Budget | None = None
    selected: tuple[str, ...] | None = None
    flags_known: bool = True
    knows_token_budget: bool | None = None
    datasets: tuple[str, ...] = ()
    script: str | None = None
    script_digest: str | None = None
    script_mtime: float | None = None
    identity: Mapping[str, object] | None = None
    respawns: bool | None = False
    parent_pid: int | None = None
    settings: Mapping[str, object] | None = None
    """The options of a run of ours, as JSON, for a comparison with those of now."""
    release: str | None = None

    def budget_of(self, folder: str) -> int:
        """Its own token budget for a dataset; 0 when it has none."""
        return self.budget.of(folder) if self.budget is not None else 0

    def selects(self, folder: str) -> bool:
        """Whether its `--datasets` takes this one in; a process without the flag takes all."""
        return self.selected is None or is_named(folder, self.selected)


@dataclass(frozen=True)
class Rate:
    """A measured speed of the whole engine, in completion tokens a second, and where it was measured."""

    tokens_s: float
    source: str


@dataclass(frozen=True)
class Surroundings:
    """What a plan knows besides the data: who writes, how fast the engine is, what tokenizes and answers now.

    Whoever already knows a part passes it; `surroundings.look_around` finds out the rest.
    """

    at: float
    processes: tuple[Process, ...] = ()
    rate: Rate | None = None
    gpus: int | None = None
    release: str | None = None
    fingerprint: Fingerprint | None = None
    model: ModelFacts | None = None
    sampling: Sampling | None = None
    engine: EngineFacts | None = None
    problems: tuple[str, ...] = ()
    """What could not be found out, a line each."""


@dataclass(frozen=True)
class SettingsChange:
    """A setting under which existing answers were made, and which is another one now."""

    what: str
    was: str
    now: str
    answers: int | None


@dataclass(frozen=True)
class Tokenization:
    """What `retokenize.tokenization_of` says if nothing new is generated."""

    decision: str = "none"
    reason: str = "unknown"
    evidence: str = ""
    trainable: Mapping[str, object] | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class DatasetState:
    """One dataset as a plan sees it. Counts are None where unknown; times are seconds since 1970."""

    folder: str
    at: float = 0.0
    kind: str = PROMPTS_KIND
    exists: bool = True
    readable: bool = True
    detail: str = ""
    """Why it cannot be read, when it cannot."""
    prompts: int | None = None
    """Usable prompts with distinct ids; None when there is no prompts.jsonl."""
    bad_prompts: int = 0
    trailing_assistant: int = 0
    responses: int | None = None
    tokenized: int | None = None
    records: RecordCounts = field(default_factory=RecordCounts)
    first_problem: str = ""
    tokens: int = 0
    """Completion tokens of the usable records."""
    answered: int = 0
    """Prompts that have a usable answer."""
    set_aside: int = 0
    """Unanswered prompts with a tombstone that still holds for them."""
    all_records: int = 0
    all_tokens: int = 0
    """Usable records of all datasets and their tokens, for the mean length where there are few of its own."""
    rate: Rate | None = None
    gpus: int | None = None
    bytes_per_token: float | None = None
    responses_changed_at: float | None = None
    growing: bool = False
    processes: tuple[Process, ...] = ()
    settings_changes: tuple[SettingsChange, ...] = ()
    unrecorded: int = 0
    """Answers that no recorded run has made: an older script's."""
    tokenization: Tokenization = field(default_factory=Tokenization)
