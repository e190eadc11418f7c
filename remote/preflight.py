"""Everything that must be right before a run, checked one by one, each with its remedy.

Only a blocker here stops a run; `--accept CHECK` passes exactly one, and is recorded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from remote import audit, preflight_budget, preflight_engine, preflight_host, preflight_python
from remote.check import WARNING, Check, apply_accept
from remote.choose_python import choose_python
from remote.errors import OperatorError
from remote.facts import DatasetState, Surroundings
from remote.layout import Layout
from remote.options import Options
from remote.plan import Plan
from remote.preflight_look import Look
from remote.probe_python import PythonFacts, probe_python
from remote.runfile import number, read_object
from remote.runs import Run, read_runs
from remote.tokenized_meta import Meta, read_meta

CHECKS: tuple[Callable[[Look], Check], ...] = (
    preflight_python.python,
    preflight_python.imports,
    preflight_python.tokenizer,
    preflight_python.fingerprint,
    preflight_engine.engine,
    preflight_engine.model,
    preflight_engine.context,
    preflight_engine.settings,
    preflight_budget.budget,
    preflight_host.disk,
    preflight_host.root,
    preflight_host.lock,
    preflight_host.writers,
    preflight_host.growth,
    preflight_host.records,
    preflight_host.clock,
    preflight_host.release,
    preflight_host.hold,
)
"""All checks in the order in which they are shown; a check is named after its function."""

ENTRIES = 20
"""How many entries of the audit may hold the end of a writer that has just been stopped."""


def run_preflight(
    layout: Layout,
    options: Options,
    states: Sequence[DatasetState],
    plan: Plan,
    around: Surroundings,
    *,
    python: str | PythonFacts | None = None,
    operator_at: float | None = None,
    stopping: frozenset[int] = frozenset(),
    stops_generator: bool = True,
    launching: bool = False,
    api_key_known: bool = False,
) -> list[Check]:
    """Run every check. Takes seconds, a minute at most: it loads the tokenizer in a child.

    `python`: the interpreter that will run (`--python`, else this one), or what it has already
    said. The rest as in `Look`. Never raises: a check that fails to look is a warning that says so.
    """
    facts = python if isinstance(python, PythonFacts) else ask_python(options, python)
    look = Look(
        layout=layout,
        options=options,
        around=around,
        states=states,
        plan=plan,
        python=facts,
        hold=audit.read_hold(layout, around.at),
        metas=_metas(layout, states),
        last_run=_last_run(layout),
        operator_at=operator_at,
        stopping=stopping,
        stops_generator=stops_generator,
        launching=launching,
        api_key_known=api_key_known,
        ended_at=_ended_at(layout),
    )
    return [apply_accept(_ask(check, look), options) for check in CHECKS]


def _ask(check: Callable[[Look], Check], look: Look) -> Check:
    try:
        return check(look)
    except OperatorError as error:
        return Check(check.__name__, WARNING, error.message, error.remedy)
    except OSError as error:
        where = f"{Path(error.filename).name}: " if isinstance(error.filename, str) else ""
        return Check(check.__name__, WARNING, f"could not be looked at: {where}{error.strerror or error}")


def ask_python(options: Options, python: str | None = None) -> PythonFacts:
    """What the interpreter that will run says of itself: `python`, else `--python`, else the first that works."""
    try:
        return probe_python(python or choose_python(options), options)
    except OperatorError as error:
        return PythonFacts("python3", error=error.message)


def _last_run(layout: Layout) -> Run | None:
    try:
        return next(reversed(read_runs(layout)), None)
    except OSError:
        return None


def _ended_at(layout: Layout) -> float | None:
    """When a known writer last ended: ours by its exit record, any other by the audit of its end."""
    ends: list[float | None] = []
    # Where a record cannot be read, growth stays unexplained, which is the careful answer.
    with contextlib.suppress(OperatorError):
        ends.append(number((read_object(layout.exit_json) or {}).get("at")))
    with contextlib.suppress(OperatorError):
        ends += [number(entry.get("at")) for entry in audit.read(layout, ENTRIES) if _tells_an_end(entry)]
    return max((end for end in ends if end is not None), default=None)


def _tells_an_end(entry: Mapping[str, Any]) -> bool:
    return str(entry.get("action")).startswith(("stop", "kill")) and entry.get("outcome") == "stopped"


def _metas(layout: Layout, states: Sequence[DatasetState]) -> dict[str, Meta]:
    found = {state.folder: read_meta(layout, state.folder) for state in states}
    return {folder: meta for folder, meta in found.items() if meta is not None}
