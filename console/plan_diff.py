"""Whether a kept plan still holds: `restart --plan FILE` refuses when what was decided has changed.

A decision, a reason, a kind, an option, a writer, the tokenizer's fingerprint or the engine's
model that differs is named; counts alone are not, since files grow while one reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.text import clean

UNCOMPARED_OPTIONS = frozenset({"read_only"})
MAX_BYTES = 8 << 20


def plan_differences(kept: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between a kept plan and that of now, a clause each; empty when it still holds."""
    return [
        *_options(_object(kept, "options"), _object(now, "options")),
        *_datasets(_rows(kept, "datasets"), _rows(now, "datasets")),
        *_writers(_rows(kept, "writers"), _rows(now, "writers")),
        *_value("tokenizer fingerprint", kept.get("fingerprint"), now.get("fingerprint")),
        *_value("engine's model", kept.get("engine_model"), now.get("engine_model")),
    ]


def read_plan(path: Path) -> dict[str, Any]:
    """A plan that `trace --out FILE` or `plan --json` wrote. Raises OperatorError when the file is none."""
    remedy = "make one with: eagle3-console trace TARGET --out FILE"
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise OperatorError("no-plan", f"cannot read {path}: {error.strerror}", remedy, ExitCode.USAGE) from None
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise OperatorError("no-plan", f"{path} is not JSON: {clean(error)}", remedy, ExitCode.USAGE) from None
    if not isinstance(value, dict) or not isinstance(value.get("datasets"), list) or "options" not in value:
        raise OperatorError("no-plan", f"{path} is no plan: it has no datasets and options", remedy, ExitCode.USAGE)
    return value


def _options(kept: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted({*kept, *now} - UNCOMPARED_OPTIONS):
        yield from _value(f"option --{name.replace('_', '-')}", kept.get(name), now.get(name))


def _datasets(kept: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    before = {str(row.get("name")): row for row in kept}
    after = {str(row.get("name")): row for row in now}
    for folder in sorted({*before, *after}):
        name = clean(folder, 60)
        if folder not in after:
            yield f"{name} was there and is not any more"
        elif folder not in before:
            yield f"{name} is new"
        else:
            was, is_now = before[folder], after[folder]
            yield from _value(f"{name}: kind", was.get("kind"), is_now.get("kind"))
            for part in ("inference", "tokenization"):
                yield from _value(f"{name}: {part}", _decision(was, part), _decision(is_now, part))


def _decision(row: Mapping[str, Any], part: str) -> str:
    found = _object(row, part)
    return f"{found.get('decision')} ({found.get('reason')})"


def _writers(kept: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    before, after = _by_identity(kept), _by_identity(now)
    for key in before.keys() - after.keys():
        yield f"{before[key]} wrote then and does not any more"
    for key in after.keys() - before.keys():
        yield f"{after[key]} writes now and did not then"


def _by_identity(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """A pid alone is reused: a writer is the same one when its start and boot are."""
    found = {}
    for row in rows:
        identity = row.get("identity")
        key = json.dumps(identity if identity is not None else row.get("pid"), sort_keys=True)
        argv = row.get("argv")
        command = " ".join(map(str, argv)) if isinstance(argv, list) else ""
        found[key] = f"pid {clean(row.get('pid'), 20)}{f' ({clean(command, 80)})' if command else ''}"
    return found


def _value(what: str, kept: Any, now: Any) -> Iterator[str]:
    if kept != now:
        yield f"{what} was {_shown(kept)}, now {_shown(now)}"


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    return clean(value if isinstance(value, str) else json.dumps(value, sort_keys=True), 120)


def _rows(value: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = value.get(key)
    return [row for row in found if isinstance(row, Mapping)] if isinstance(found, list) else []


def _object(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, Mapping) else {}
