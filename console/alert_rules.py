"""All alerts there are: one small pure function each, telling a sentence and a next step.

No rule knows of time passing; `console.alerts` adds that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from console import alert_data, alert_engine, alert_link, alert_process
from console.finding import Case, Finding
from console.thresholds import Thresholds
from console.trends import Trends
from console.view import View

LinkRule = Callable[[View, Thresholds], Iterator[Finding]]
Rule = Callable[[Case], Iterator[Finding]]

LINK_RULES: tuple[LinkRule, ...] = (alert_link.link_down, alert_link.clock_skew)
"""Rules that hold without a fresh snapshot."""

RULES: tuple[Rule, ...] = (
    alert_process.process_died,
    alert_process.stopped,
    alert_process.no_new_answer,
    alert_process.hangs,
    alert_process.writers,
    alert_process.hold,
    alert_engine.errors,
    alert_engine.engine,
    alert_engine.engine_restarted,
    alert_engine.other_model,
    alert_engine.gpu_idle,
    alert_data.unusable,
    alert_data.mismatches,
    alert_data.shapes,
    alert_data.unreachable,
    alert_data.disk,
    alert_link.agent_problems,
)


def find(view: View, trends: Trends, limits: Thresholds, steady_s: float) -> list[Finding]:
    """Everything that is wrong in this view. Without a fresh snapshot, only what is wrong with the link."""
    found = [finding for link_rule in LINK_RULES for finding in link_rule(view, limits)]
    if view.snapshot is not None and view.link.fresh:
        case = Case(view, view.snapshot, trends, limits, steady_s)
        found += [finding for rule in RULES for finding in rule(case)]
    return found
