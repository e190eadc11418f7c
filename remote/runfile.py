"""The small files that say what runs: `run.json`, `exit.json`, `stop.json`, and `progress.json` as it is read here.

`run.json` is written by the launch (with the settings) and filled in by the supervisor; each of
the others carries the id of its run, so that one left by an earlier run is never taken for this
one's. No secret is ever in them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remote.errors import OperatorError
from remote.identity import Identity
from remote.layout import Layout, write_whole
from remote.options import Options

_MAX_BYTES = 1 << 20
STOP_MODES = ("drain", "now", "force")


def new_run_id(now_s: float) -> str:
    """A run id that sorts by time and cannot repeat: `20260729T031500-5f3a9c`."""
    return time.strftime("%Y%m%dT%H%M%S", time.gmtime(now_s)) + "-" + os.urandom(3).hex()


def read_object(path: Path) -> dict[str, Any] | None:
    """A JSON object from a small file, or None when there is no such file.

    Raises OperatorError("unreadable") when it is there and is anything else.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        raise _unreadable(path, "it is not JSON") from None
    if not isinstance(value, dict):
        raise _unreadable(path, "it is no JSON object")
    return value


def _unreadable(path: Path, why: str) -> OperatorError:
    return OperatorError("unreadable", f"cannot read {path}: {why}", "look at the file; move it aside if it is damaged")


def write_object(path: Path, value: Mapping[str, Any]) -> None:
    """Replace a small JSON file durably. Raises OSError."""
    write_whole(path, json.dumps(value, indent=1, ensure_ascii=True).encode() + b"\n")


@dataclass(frozen=True)
class Run:
    """`run.json`: one launch. `at` and `ready_at` in Unix seconds; an identity is None until it exists."""

    run_id: str
    argv: tuple[str, ...]
    options: Options
    at: float
    by: str
    release: str
    supervisor: Identity | None = None
    generator: Identity | None = None
    ready_at: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The file's content."""
        return {
            "run": self.run_id,
            "argv": list(self.argv),
            "options": self.options.to_json(),
            "at": self.at,
            "by": self.by,
            "release": self.release,
            "supervisor": self.supervisor.to_json() if self.supervisor else None,
            "generator": self.generator.to_json() if self.generator else None,
            "ready_at": self.ready_at,
        }


def read_run(layout: Layout) -> Run | None:
    """The last launch under this root, or None when there was none. Raises OperatorError("unreadable")."""
    value = read_object(layout.run_json)
    if value is None:
        return None
    run_id, argv, options = value.get("run"), value.get("argv"), value.get("options")
    if not isinstance(run_id, str) or not isinstance(argv, list) or not isinstance(options, dict):
        raise _unreadable(layout.run_json, "it names no run")
    return Run(
        run_id=run_id,
        argv=tuple(str(word) for word in argv),
        options=Options.from_json(options),
        at=number(value.get("at")) or 0.0,
        by=str(value.get("by") or ""),
        release=str(value.get("release") or ""),
        supervisor=Identity.from_json(value.get("supervisor")),
        generator=Identity.from_json(value.get("generator")),
        ready_at=number(value.get("ready_at")),
    )


def write_run(layout: Layout, run: Run) -> None:
    """Write `run.json` durably. Raises OSError."""
    write_object(layout.run_json, run.to_json())


def read_exit(layout: Layout, run_id: str) -> dict[str, Any] | None:
    """How this run ended: `{"run", "code", "signal", "at", "reason", "by", "oom", "lost_tokens", "left", "error"}`,
    or None while it has left no exit record. Raises OperatorError("unreadable")."""
    return _of_run(read_object(layout.exit_json), run_id)


def read_stop(layout: Layout, run_id: str) -> dict[str, Any] | None:
    """The stop that was asked of this run: `{"run", "mode", "drain_s", "by", "at"}`, or None.

    A damaged file is a request whose mode cannot be read: it is taken for a drain, the gentlest.
    """
    try:
        return _of_run(read_object(layout.stop_json), run_id)
    except OperatorError:
        return None


def write_stop(
    layout: Layout, run_id: str, mode: str, drain_s: float, by: str, patience_s: float | None = None
) -> None:
    """Say how to stop, before the signal that makes it happen; `patience_s` as in `ladder.rungs`. Raises OSError."""
    asked = {"run": run_id, "mode": mode, "drain_s": drain_s, "by": by, "at": time.time(), "patience_s": patience_s}
    write_object(layout.stop_json, asked)


def read_progress(layout: Layout, run_id: str | None) -> dict[str, Any]:
    """What the generator last said about itself, empty when it said nothing readable (or was another run's)."""
    try:
        value = read_object(layout.progress_json) or {}
    except OperatorError:
        return {}
    return value if run_id is None or value.get("run") in (None, run_id) else {}


def _of_run(value: dict[str, Any] | None, run_id: str) -> dict[str, Any] | None:
    return value if value is not None and value.get("run") == run_id else None


def number(value: object) -> float | None:
    """A JSON number as a float, anything else (a boolean too) as None."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
