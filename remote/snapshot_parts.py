"""What the watches know at one moment: the parts that a snapshot is composed of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from remote.logtail import Page
from remote.options import Options
from remote.plan import Plan
from remote.scan import RootScan
from remote.status import GeneratorStatus


@dataclass(frozen=True)
class Parts:
    """What is known. `writers` are JSON as `find_writers` gives it; `hold`, `acks`, `audit` as `remote.audit` does."""

    root: str
    options: Options
    agent: Mapping[str, Any]
    scan: RootScan | None = None
    plan: Plan | None = None
    generator: GeneratorStatus | None = None
    writers: Sequence[Mapping[str, Any]] = ()
    engine: Mapping[str, Any] | None = None
    gpus: Mapping[str, Any] | None = None
    host: Mapping[str, Any] | None = None
    disk: Mapping[str, Any] | None = None
    hold: Mapping[str, Any] | None = None
    acks: Mapping[str, Any] = field(default_factory=dict)
    audit: Sequence[Mapping[str, Any]] = ()
    log: Page | None = None
    thinking: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Per folder, how many of the latest answers were looked at, and how many lack the end of thinking."""
    problems: Sequence[str] = ()
    pending: Sequence[str] = ()
    """Parts at their first look: what is unknown because of them is not missing."""

    @property
    def running(self) -> bool:
        """Whether our generator lives."""
        return self.generator is not None and self.generator.living

    @property
    def progress(self) -> Mapping[str, Any]:
        """What the living generator says of itself; empty when none lives."""
        return self.generator.progress if self.generator is not None and self.generator.living else {}

    @property
    def in_work(self) -> Sequence[str]:
        """The datasets that our generator answers or tokenizes right now."""
        named = self.progress.get("in_work")
        return [str(name) for name in named] if isinstance(named, list) else []

    @property
    def written_by_others(self) -> frozenset[str]:
        """The datasets whose files a process that is not ours holds open for writing."""
        return frozenset(
            str(name)
            for writer in self.writers
            for names in (writer.get("datasets"),)
            if isinstance(names, list)
            for name in names
        )
