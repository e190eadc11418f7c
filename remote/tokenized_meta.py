"""`tokenized_data.meta.json`: how the rows beside it were made, and why any answer is not among them.

It holds the size, times and inode of every file that took part, so that "nothing changed" costs their stats, and it is
written after the rows: whatever a crash leaves, a meta file never vouches for rows that it did not see.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from remote.fingerprint import Fingerprint
from remote.layout import TOKENIZED_META, Layout, write_whole

META_VERSION = 1
SURVIVE_AT = (4096, 8192, 16384)
"""Row lengths, in tokens, for which the meta file says how many rows would survive a trainer's cut."""

MAX_PASSED_OVER = 1000
"""So many bad lines are listed in a meta file; the scan names each of them."""


@dataclass(frozen=True)
class FileStamp:
    """What tells that a file has not changed without reading it. Times in nanoseconds; `size` in bytes is how far it was read."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    digest: str | None = None
    """SHA-256 of the bytes read, for a person who must prove it; never needed to decide."""

    @classmethod
    def of(cls, facts: os.stat_result, digest: str | None = None) -> FileStamp:
        """The stamp of a file as `os.stat` describes it."""
        return cls(facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino, digest)

    def matches(self, other: FileStamp | None) -> bool:
        """Whether both are the same file, unchanged."""
        return other is not None and (self.size, self.mtime_ns, self.ctime_ns, self.inode) == (
            other.size,
            other.mtime_ns,
            other.ctime_ns,
            other.inode,
        )


def unchanged(was: FileStamp | None, now: FileStamp | None) -> bool:
    """Whether a file is as it was, absence included."""
    return now is None if was is None else was.matches(now)


def stamp(path: Path) -> FileStamp | None:
    """The stamp of a file; None where there is none. Raises OSError for anything else that cannot be read as a file."""
    try:
        facts = path.stat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(facts.st_mode):
        # Opening a pipe would wait for a writer that never comes.
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return FileStamp.of(facts)


@dataclass(frozen=True)
class LeftOut:
    """A usable answer that has no row, and why: `prompt-mismatch`, `too-long`, `length-finish`, `unrenderable`, `no-loss`."""

    sample_id: str
    reason: str
    detail: str = ""


@dataclass(frozen=True)
class PassedOver:
    """A line of raw_responses.jsonl that is no answer that counts: `unusable` (with its code), `orphan`, `duplicate`, `torn`."""

    offset: int
    kind: str
    code: str = ""
    sample_id: str | None = None


@dataclass(frozen=True)
class Meta:
    """The meta file. `inputs` and `output` are stamps by file name; `survive` maps a row length to the rows within it."""

    at: str
    fingerprint: Fingerprint
    options: Mapping[str, Any]
    inputs: Mapping[str, FileStamp | None]
    output: FileStamp | None
    rows: int
    loss_tokens: int
    row_tokens: int
    longest: int
    survive: Mapping[str, int]
    checked: Mapping[str, int]
    """Rows by how their prompt was checked: `digest`, `count` (prompt-unverified), `none`."""
    left_out: tuple[LeftOut, ...] = ()
    passed_over: tuple[PassedOver, ...] = ()
    """The first MAX_PASSED_OVER of them; `passed_over_by_kind` counts all."""
    passed_over_by_kind: Mapping[str, int] = field(default_factory=dict)
    comparison: Mapping[str, Any] = field(default_factory=dict)
    took_s: float | None = None
    release: str | None = None

    @property
    def reasons(self) -> dict[str, int]:
        """How many answers were left out for which reason."""
        return dict(Counter(item.reason for item in self.left_out))

    @property
    def why_fewer(self) -> str:
        """Why there are fewer rows than lines, in words: `2 prompt-mismatch, 40 unusable`; empty where there are not."""
        counts = {**self.reasons, **self.passed_over_by_kind}
        return ", ".join(f"{number:,} {name}" for name, number in sorted(counts.items()))

    @property
    def trainable(self) -> dict[str, Any]:
        """What the plan shows of the rows: their number, loss tokens, and how many survive 4k, 8k and 16k."""
        return {
            "rows": self.rows,
            "loss_tokens": self.loss_tokens,
            "survive": dict(self.survive),
            "left_out": self.reasons,
        }

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` is the inverse."""
        return {
            "version": META_VERSION,
            "at": self.at,
            "release": self.release,
            "fingerprint": self.fingerprint.to_json(),
            "options": dict(self.options),
            "inputs": {name: asdict(item) if item else None for name, item in self.inputs.items()},
            "output": asdict(self.output) if self.output else None,
            "rows": self.rows,
            "loss_tokens": self.loss_tokens,
            "row_tokens": self.row_tokens,
            "longest": self.longest,
            "survive": dict(self.survive),
            "checked": dict(self.checked),
            "prompt_unverified": self.checked.get("count", 0),
            "left_out_by_reason": self.reasons,
            "left_out": [asdict(item) for item in self.left_out],
            "passed_over_by_kind": dict(self.passed_over_by_kind),
            "passed_over": [asdict(item) for item in self.passed_over],
            "comparison": dict(self.comparison),
            "took_s": self.took_s,
        }

    @classmethod
    def from_json(cls, value: object) -> Meta | None:
        """Rebuild what `to_json` wrote; None for anything that is not such a file, another version's included."""
        if not isinstance(value, dict) or value.get("version") != META_VERSION:
            return None
        fingerprint = Fingerprint.from_json(value.get("fingerprint"))
        if fingerprint is None:
            return None
        try:
            output = value["output"]
            return cls(
                at=str(value["at"]),
                fingerprint=fingerprint,
                options=dict(value["options"]),
                inputs={str(name): FileStamp(**item) if item else None for name, item in value["inputs"].items()},
                output=FileStamp(**output) if output else None,
                rows=int(value["rows"]),
                loss_tokens=int(value["loss_tokens"]),
                row_tokens=int(value["row_tokens"]),
                longest=int(value["longest"]),
                survive={str(key): int(item) for key, item in value["survive"].items()},
                checked={str(key): int(item) for key, item in value["checked"].items()},
                left_out=tuple(LeftOut(**item) for item in value["left_out"]),
                passed_over=tuple(PassedOver(**item) for item in value["passed_over"]),
                passed_over_by_kind={str(key): int(item) for key, item in value["passed_over_by_kind"].items()},
                comparison=dict(value.get("comparison") or {}),
                took_s=value.get("took_s"),
                release=value.get("release"),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            return None


def meta_path(layout: Layout, folder: str) -> Path:
    """Where the meta file of a dataset lies."""
    return layout.folder(folder) / TOKENIZED_META


def read_meta(layout: Layout, folder: str) -> Meta | None:
    """The meta file of a dataset; None where there is none that can be understood: then a rebuild makes one."""
    path = meta_path(layout, folder)
    try:
        now = stamp(path)
    except OSError:
        return None
    return None if now is None else _read(str(path), now)


def refused_path(layout: Layout, folder: str) -> Path:
    """Where the account of a rebuild that was not swapped in is kept: the meta file it would have had."""
    return layout.state / "refused" / f"{folder}.json"


def read_refused(layout: Layout, folder: str) -> Meta | None:
    """The rebuild that was refused last, and not made good since; None where there is none."""
    path = refused_path(layout, folder)
    try:
        now = stamp(path)
    except OSError:
        return None
    return None if now is None else _read(str(path), now)


def write_refused(layout: Layout, folder: str, meta: Meta | None) -> None:
    """Keep the account of a refused rebuild; None takes it away. Raises OSError."""
    path = refused_path(layout, folder)
    if meta is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, _bytes(meta))


@lru_cache(maxsize=64)
def _read(path: str, now: FileStamp) -> Meta | None:
    """The meta file at `path`; `now` only makes the memory's key: the agent asks every second."""
    try:
        value = json.loads(Path(path).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return Meta.from_json(value)


def write_meta(layout: Layout, folder: str, meta: Meta) -> None:
    """Replace the meta file durably. Raises OSError."""
    write_whole(meta_path(layout, folder), _bytes(meta))


def _bytes(meta: Meta) -> bytes:
    return json.dumps(meta.to_json(), indent=1).encode() + b"\n"
