"""What a run holds of each dataset it works on, and of each prompt that has a place."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from remote.admission import name_of
from remote.plan import DatasetPlan
from remote.prompts import Prompt
from remote.recent import Recent
from remote.sources import PromptSource


@dataclass
class Work:
    """One dataset. `answered` counts all its answers, `kept` those of this run; `last_answer_at` is Unix seconds.

    `suspects` wait to be asked alone; `begun` when its first prompt took a place, `closed` when it is finished.
    """

    plan: DatasetPlan
    source: PromptSource
    recent: Recent
    answered: int
    kept: int = 0
    set_aside: Counter[str] = field(default_factory=Counter)
    suspects: list[Prompt] = field(default_factory=list)
    last_answer_at: float | None = None
    begun: bool = False
    closed: bool = False
    trouble: str = ""
    """What stopped this dataset, and not the run."""


@dataclass(eq=False)
class Job:
    """One prompt that has a place. `writing` once the engine has answered: it is then finished, whatever happens."""

    folder: str
    prompt: Prompt
    crashes_allowed: int
    digest: str | None = None
    writing: bool = False
    task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """What names this prompt across datasets."""
        return name_of(self.folder, self.prompt.key)
