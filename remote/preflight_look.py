"""What the checks of a preflight look at, gathered once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from remote.facts import DatasetState, Surroundings
from remote.layout import Layout
from remote.options import Options
from remote.plan import Plan
from remote.probe_python import PythonFacts
from remote.runs import Run
from remote.tokenized_meta import Meta


@dataclass(frozen=True)
class Look:
    """One preflight's view of the container. `operator_at` is the operator's clock at the moment of asking.

    `stopping` are the pids that a restart has named to be killed first, `stops_generator` says that
    ours will be stopped first; with `launching` nothing will be stopped any more.
    """

    layout: Layout
    options: Options
    around: Surroundings
    states: Sequence[DatasetState]
    plan: Plan
    python: PythonFacts | None = None
    hold: dict[str, Any] | None = None
    metas: dict[str, Meta] = field(default_factory=dict)
    last_run: Run | None = None
    operator_at: float | None = None
    stopping: frozenset[int] = frozenset()
    stops_generator: bool = True
    launching: bool = False
    api_key_known: bool = False
    ended_at: float | None = None
    """When a process that was known to write last came to its end: what grew before that is explained by it."""
