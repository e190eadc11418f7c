"""`.eagle3/runs.jsonl`: what each run was told, by which engine it was answered, and which bytes of each file are its own.

A run writes one line when it begins to generate, one when the engine's weights change under it, and one at its end; a
killed run has no end, and its bytes reach to where the next one begins. Sampling values stand with their source, so that
last week's settings do not mix silently with today's.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from remote.appended import append_line, read_forwards
from remote.layout import RESPONSES, Layout


@dataclass(frozen=True)
class Run:
    """One run as the file tells it. Times are Unix seconds; `ranges` is folder to (first byte, end or None)."""

    run_id: str
    at: float
    options: Mapping[str, Any] = field(default_factory=dict)
    sampling: Mapping[str, Any] = field(default_factory=dict)
    sampling_source: str = ""
    sent: Mapping[str, Any] = field(default_factory=dict)
    """`sampling_params` as every request had them; `sampling` holds the values that were chosen."""
    model_path: str | None = None
    engine_url: str | None = None
    engine_model_path: str | None = None
    engine_version: str | None = None
    weight_version: str | None = None
    weight_versions: tuple[str, ...] = ()
    fingerprint: Mapping[str, Any] = field(default_factory=dict)
    ranges: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    ended_at: float | None = None
    exit_code: int | None = None


def sizes(layout: Layout, folders: list[str]) -> dict[str, int]:
    """Bytes of each dataset's raw_responses.jsonl now; 0 where there is none."""
    found: dict[str, int] = {}
    for folder in folders:
        try:
            found[folder] = (layout.folder(folder) / RESPONSES).stat().st_size
        except OSError:
            found[folder] = 0
    return found


def record_start(layout: Layout, run: Run, starts: Mapping[str, int]) -> None:
    """Write the line of a run that begins, with the first byte of each dataset. Raises OSError."""
    append_line(
        layout.runs_jsonl,
        {
            "run": run.run_id,
            "event": "start",
            "at": run.at,
            "options": dict(run.options),
            "sampling": {"values": dict(run.sampling), "source": run.sampling_source, "sent": dict(run.sent)},
            "model_path": run.model_path,
            "fingerprint": dict(run.fingerprint),
            "starts": dict(starts),
        },
    )


def record_engine(layout: Layout, run_id: str, engine: Mapping[str, Any]) -> None:
    """Write what the engine says of itself: at its first answer, and whenever it says something else. Raises OSError."""
    append_line(layout.runs_jsonl, {"run": run_id, "event": "engine", "at": time.time(), "engine": dict(engine)})


def record_end(layout: Layout, run_id: str, exit_code: int, ends: Mapping[str, int]) -> None:
    """Write the line of a run that ends, with the byte behind its last in each dataset. Raises OSError."""
    line = {"run": run_id, "event": "end", "at": time.time(), "exit_code": exit_code, "ends": dict(ends)}
    append_line(layout.runs_jsonl, line)


def read_runs(layout: Layout) -> list[Run]:
    """Every run, the oldest first; damaged lines are passed over. Raises OSError, not for a missing file."""
    runs: dict[str, Run] = {}
    for line in read_forwards(layout.runs_jsonl):
        run_id = line.get("run")
        if not isinstance(run_id, str):
            continue
        event = line.get("event")
        if event == "start":
            runs[run_id] = _started(run_id, line)
        elif run_id in runs and event == "engine":
            runs[run_id] = _with_engine(runs[run_id], _object(line.get("engine")))
        elif run_id in runs and event == "end":
            runs[run_id] = _ended(runs[run_id], line)
    return _closed(list(runs.values()))


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _bytes(value: object) -> dict[str, int]:
    return {str(name): size for name, size in _object(value).items() if isinstance(size, int)}


def _time(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0


def _started(run_id: str, line: Mapping[str, Any]) -> Run:
    sampling = _object(line.get("sampling"))
    return Run(
        run_id=run_id,
        at=_time(line.get("at")),
        options=_object(line.get("options")),
        sampling=_object(sampling.get("values")),
        sampling_source=_text(sampling.get("source")) or "",
        sent=_object(sampling.get("sent")),
        model_path=_text(line.get("model_path")),
        engine_url=_text(_object(line.get("options")).get("engine_url")),
        fingerprint=_object(line.get("fingerprint")),
        ranges={folder: (start, None) for folder, start in _bytes(line.get("starts")).items()},
    )


def _with_engine(run: Run, engine: Mapping[str, Any]) -> Run:
    weights = _text(engine.get("weight_version"))
    return replace(
        run,
        engine_model_path=_text(engine.get("model_path")) or run.engine_model_path,
        engine_version=_text(engine.get("version")) or run.engine_version,
        weight_version=weights or run.weight_version,
        weight_versions=tuple(dict.fromkeys((*run.weight_versions, *([weights] if weights else [])))),
    )


def _ended(run: Run, line: Mapping[str, Any]) -> Run:
    ends = _bytes(line.get("ends"))
    ranges = {folder: (start, ends.get(folder)) for folder, (start, _) in run.ranges.items()}
    code = line.get("exit_code")
    return replace(
        run, ended_at=_time(line.get("at")), exit_code=code if isinstance(code, int) else None, ranges=ranges
    )


def _closed(runs: list[Run]) -> list[Run]:
    """Runs that were killed end, in each dataset, where the next one that touches it begins."""
    later: dict[str, int] = {}
    for number in range(len(runs) - 1, -1, -1):
        run = runs[number]
        ranges = {
            folder: (start, end if end is not None else later.get(folder))
            for folder, (start, end) in run.ranges.items()
        }
        later.update({folder: start for folder, (start, _) in ranges.items()})
        runs[number] = replace(run, ranges=ranges)
    return runs
