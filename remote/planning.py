"""One call from a scan to the whole plan: what `plan`, the agent and the trace show, and the generator carries out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from remote.assumptions import check_assumptions
from remote.facts import DatasetState, Surroundings
from remote.forecast import needless
from remote.gather import gather
from remote.layout import Layout
from remote.options import Options
from remote.plan import Plan, plan_root, run_order
from remote.scan import RootScan


def make_plan(
    layout: Layout, scan: RootScan, options: Options, around: Surroundings
) -> tuple[Plan, list[DatasetState]]:
    """The plan without its preflight, and the states it was made from, which a preflight looks at too."""
    states = sorted(gather(layout, scan, options, around), key=lambda state: run_order(state.folder))
    return complete(plan_root(states, options), states, around), states


def complete(plan: Plan, states: Sequence[DatasetState], around: Surroundings) -> Plan:
    """Add what is told beside the decisions: who runs, the assumptions, release, tokenizer, model and sampling."""
    return replace(
        plan,
        at=around.at,
        running=tuple(needless(process, states, plan.options, around.release) for process in around.processes),
        assumptions=check_assumptions(states, plan.datasets, around.release),
        release=around.release,
        fingerprint=around.fingerprint.digest if around.fingerprint is not None else None,
        engine_model=_engine_model(around),
        sampling=_sampling(around),
    )


def _engine_model(around: Surroundings) -> str | None:
    engine = around.engine
    return (engine.model_path or engine.served_name) if engine is not None else None


def _sampling(around: Surroundings) -> dict[str, Any]:
    found = around.sampling
    return {} if found is None else {"values": dict(found.values), "source": found.source}
