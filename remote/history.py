"""`history.jsonl`: a line a minute while a generator runs, written by its supervisor.

A line is `{"at", "run", "rates": {FOLDER: tokens a second}, "tokens": {FOLDER: sum}, "gpus": [...],
"in_flight", "engine"}`; times in Unix seconds of the container's clock.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from remote.appended import append_line, read_backwards
from remote.layout import Layout
from remote.runfile import number

MAX_ROWS = 2 * 24 * 60
"""Two days of minutes: what one answer carries at most."""


def history_row(at: float, run_id: str, progress: Mapping[str, Any], gpus: Mapping[str, Any]) -> dict[str, Any]:
    """One line, from what the generator says of itself and what nvidia-smi says of the GPUs."""
    datasets = progress.get("datasets")
    rates: dict[str, Any] = {}
    tokens: dict[str, Any] = {}
    if isinstance(datasets, Mapping):
        for folder, row in datasets.items():
            if isinstance(row, Mapping):
                rates[str(folder)] = number(row.get("rate_tokens_s"))
                tokens[str(folder)] = number(row.get("tokens"))
    rows = gpus.get("rows")
    return {
        "at": round(at, 1),
        "run": run_id,
        "rates": rates,
        "tokens": tokens,
        "rate_tokens_s": number(progress.get("rate_tokens_s")),
        "in_flight": number(progress.get("in_flight")),
        "engine": progress.get("engine_state"),
        "gpus": [
            {key: row.get(key) for key in ("index", "utilisation", "memory_used_bytes", "temperature_c", "power_w")}
            for row in (rows if isinstance(rows, list) else [])
        ],
    }


def append_history(layout: Layout, row: Mapping[str, Any]) -> None:
    """Append one line; not fsynced, a minute of history is no answer. Raises OSError."""
    append_line(layout.history_jsonl, row, durable=False)


def read_history(layout: Layout, since: float) -> list[dict[str, Any]]:
    """The rows after `since` (Unix seconds), oldest first, the newest `MAX_ROWS` at most. Raises OSError."""
    newer = itertools.takewhile(
        lambda row: (number(row.get("at")) or since + 1) > since, read_backwards(layout.history_jsonl)
    )
    return list(itertools.islice(newer, MAX_ROWS))[::-1]
