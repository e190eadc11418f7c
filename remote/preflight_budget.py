"""Preflight check of the budget: a number that is one key wrong looks like any other until the night is over."""

from __future__ import annotations

from collections.abc import Sequence

from remote import figures
from remote.check import OK, WARNING, Check
from remote.errors import OperatorError
from remote.facts import DatasetState
from remote.forecast import mean_answer
from remote.layout import dataset_id
from remote.options import DEFAULT_BUDGET, Budget, Options, short_tokens
from remote.preflight_look import Look
from remote.text import clean

FOLD = 10
"""A budget so many times the last run's, or so small a part of it, is more likely a slip than a wish."""


def budget(look: Look) -> Check:
    """Is it at least one answer, near what the last run had, and are the names that it gives those of datasets?"""
    working = {plan.folder for plan in look.plan.datasets if plan.works}
    states = [state for state in look.states if state.folder in working]
    wanted = look.options.token_budget
    before = _last_budget(look)
    said = [*_unknown_names(look), *_too_small(states, wanted), *_far_from(before, states, wanted)]
    if said:
        meant = f"--token-budget {short_tokens(DEFAULT_BUDGET)}" if before is None else f"--token-budget {before}"
        return Check("budget", WARNING, "; ".join(said), f"{meant}, unless it is meant so")
    last = f"; the last run had {clean(before, 200)}" if before is not None and str(before) != str(wanted) else ""
    return Check("budget", OK, f"{clean(wanted, 200)} completion tokens for each dataset{last}")


def _unknown_names(look: Look) -> list[str]:
    folders = {state.folder for state in look.states}
    known = folders | {dataset_id(folder) for folder in folders}
    found = []
    for option, names in (
        ("--token-budget", look.options.token_budget.per),
        ("--datasets", look.options.datasets or ()),
    ):
        strange = [clean(name, 40) for name in names if name not in known]
        if strange:
            there = "these are no datasets" if len(strange) > 1 else "that is no dataset"
            found.append(f"{option} names {', '.join(strange)}, and {there} here")
    return found


def _too_small(states: Sequence[DatasetState], wanted: Budget) -> list[str]:
    small = [state for state in states if 0 < wanted.of(state.folder) < mean_answer(state).tokens]
    if not small:
        return []
    least = min(small, key=lambda state: wanted.of(state.folder))
    mean = mean_answer(least)
    return [
        f"{_named(small)}: a budget of {figures.limit(wanted.of(least.folder))} tokens is less than one answer"
        f" ({mean.source} {figures.about(mean.tokens)}): an answer or two, and the run is over"
    ]


def _far_from(before: Budget | None, states: Sequence[DatasetState], wanted: Budget) -> list[str]:
    if before is None:
        return []
    far = [state for state in states if _is_far(before.of(state.folder), wanted.of(state.folder))]
    if not far:
        return []
    was, now = before.of(far[0].folder), wanted.of(far[0].folder)
    return [f"{_named(far)}: a budget of {figures.limit(now)} tokens where the last run had {figures.limit(was)}"]


def _is_far(was: int, now: int) -> bool:
    return was > 0 and now > 0 and (now * FOLD <= was or was * FOLD <= now)


def _named(states: Sequence[DatasetState]) -> str:
    return ", ".join(clean(dataset_id(state.folder), 40) for state in states)


def _last_budget(look: Look) -> Budget | None:
    """What the run before was told; None where there was none, or its line cannot be understood."""
    if look.last_run is None or "token_budget" not in look.last_run.options:
        return None
    try:
        return Options.from_json(look.last_run.options).token_budget
    except OperatorError:
        return None
