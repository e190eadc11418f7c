"""By which settings, model and weights the existing answers were made, against those of now.

A run notes the bytes of each file that are its own; what lies outside every run's bytes came from
an older script. Answers are counted by their share of the bytes, so these numbers are estimates.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from remote.facts import SettingsChange, Surroundings
from remote.options import Options
from remote.runs import Run


def answered_by(
    runs: Sequence[Run], folder: str, answered: int, size_bytes: int, options: Options, around: Surroundings
) -> tuple[tuple[SettingsChange, ...], int]:
    """(what differs, with how many answers it touches; answers that no run made) for one dataset."""
    if not answered or not size_bytes:
        return (), 0
    touched: dict[tuple[str, str, str], int] = {}
    recorded = 0
    for run in runs:
        begin, end = run.ranges.get(folder, (0, 0))
        own = max(0, min(size_bytes if end is None else end, size_bytes) - begin)
        if not own:
            continue
        recorded += own
        for difference in differences(run, options, around):
            touched[difference] = touched.get(difference, 0) + own
    changes = tuple(
        SettingsChange(what, was, now, round(answered * bytes_touched / size_bytes) or None)
        for (what, was, now), bytes_touched in touched.items()
    )
    unrecorded = round(answered * max(0, size_bytes - recorded) / size_bytes)
    return changes, unrecorded


def differences(run: Run, options: Options, around: Surroundings) -> Iterator[tuple[str, str, str]]:
    """(what, was, now) for each setting of an earlier run that is another one now; unknown is not compared."""
    now = around.sampling
    if now is not None and run.sampling:
        for key in sorted({*run.sampling, *now.values}):
            was, value = run.sampling.get(key), now.values.get(key)
            if was != value:
                yield key, _shown(was), _shown(value)
    kwargs = run.options.get("template_kwargs")
    if run.options and _canonical(kwargs or {}) != _canonical(options.template_kwargs or {}):
        yield "template-kwargs", _shown(kwargs), _shown(options.template_kwargs)
    limit = run.options.get("max_new_tokens")
    if isinstance(limit, int) and limit != options.max_new_tokens:
        yield "max-new-tokens", str(limit), str(options.max_new_tokens)
    if run.model_path and options.model_path and not _same_model(run.model_path, options.model_path):
        yield "model", run.model_path, options.model_path
    weights = around.engine.weight_version if around.engine is not None else None
    if run.weight_version and weights and run.weight_version != weights:
        yield "weights", run.weight_version, weights


def _same_model(was: str, now: str) -> bool:
    return was == now or os.path.realpath(was) == os.path.realpath(now)


def _shown(value: Any) -> str:
    return "none" if value is None else json.dumps(value) if isinstance(value, (dict, list)) else str(value)


def _canonical(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True)
