"""Prompts that were set aside because they cannot be answered: `.eagle3/failed.jsonl`, a line each.

A prompt that is too long for the context would be paid for again at every resume. It is not tried again until
`--retry-failed` asks for it, or its ids have changed (another template, another prompt under the same id).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remote.appended import append_line, read_forwards
from remote.layout import Layout

CRASH_SUSPECT = "engine-crash-suspect"


@dataclass(frozen=True)
class Tombstone:
    """One prompt set aside: its key (the id as a string), the digest of its ids (None where it has none), why, when."""

    dataset: str
    sample_id: str
    prompt_digest: str | None
    reason: str
    detail: str
    at: float
    run: str

    def to_json(self) -> dict[str, Any]:
        """The line in the file."""
        return {
            "dataset": self.dataset,
            "sample_id": self.sample_id,
            "prompt_digest": self.prompt_digest,
            "reason": self.reason,
            "detail": self.detail,
            "at": self.at,
            "run": self.run,
        }


def read_tombstones(layout: Layout) -> dict[str, dict[str, Tombstone]]:
    """Folder to sample key to its last tombstone; those that were lifted are gone. Raises OSError."""
    found: dict[str, dict[str, Tombstone]] = {}
    for line in read_forwards(layout.failed_jsonl):
        folder, key = line.get("dataset"), line.get("sample_id")
        if not isinstance(folder, str) or not isinstance(key, (str, int)) or isinstance(key, bool):
            continue
        if line.get("lifted"):
            found.get(folder, {}).pop(str(key), None)
            continue
        digest, at = line.get("prompt_digest"), line.get("at")
        found.setdefault(folder, {})[str(key)] = Tombstone(
            dataset=folder,
            sample_id=str(key),
            prompt_digest=digest if isinstance(digest, str) else None,
            reason=str(line.get("reason") or "unknown"),
            detail=str(line.get("detail") or ""),
            at=float(at) if isinstance(at, (int, float)) else 0.0,
            run=str(line.get("run") or ""),
        )
    return found


class Tombstones:
    """The tombstones of a root while a run reads and adds to them."""

    def __init__(self, layout: Layout, run: str) -> None:
        self._path: Path = layout.failed_jsonl
        self._run = run
        self._known = read_tombstones(layout)

    def of(self, folder: str) -> Mapping[str, Tombstone]:
        """Sample key to tombstone in one dataset."""
        return self._known.get(folder, {})

    def add(self, folder: str, key: str, digest: str | None, reason: str, detail: str) -> Tombstone:
        """Set a prompt aside, durably. Raises OSError."""
        stone = Tombstone(folder, key, digest, reason, detail, time.time(), self._run)
        append_line(self._path, stone.to_json())
        self._known.setdefault(folder, {})[key] = stone
        return stone

    def lift(self, folder: str, key: str) -> Tombstone | None:
        """Take back and return the tombstone of a prompt that was answered after all, if it has one. Raises OSError."""
        stone = self._known.get(folder, {}).pop(key, None)
        if stone is None:
            return None
        line = {"dataset": folder, "sample_id": key, "lifted": True, "at": time.time(), "run": self._run}
        append_line(self._path, line)
        return stone
