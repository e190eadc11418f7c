"""Disks that fail, made for one test: a preloaded shim, a tiny tmpfs, a limit on the file's size."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from remote.records import Rules
from remote.scan import scan_root
from tests.support.needs import find, needs_root

HERE = Path(__file__).resolve().parent
FOLDER = "B4_mixturethoughts"
DEADLINE_S = 60


@lru_cache
def shim() -> str:
    """The compiled `tests/faults/fault.c`; the test is skipped where there is no C compiler."""
    compiler = find("cc")
    if compiler is None:
        pytest.skip("needs cc (apt-get install gcc)")
    target = Path(mkdtemp(prefix="eagle3-fault-")) / "fault.so"
    source = HERE.parent / "faults" / "fault.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", target, source, "-ldl"], check=True, timeout=DEADLINE_S)
    return str(target)


@dataclass(frozen=True)
class Written:
    """How a writing child ended: exit code, its error as JSON (or None), the ids it acknowledged."""

    code: int
    error: dict[str, Any] | None
    acknowledged: list[str]
    repairs: list[str]


def child_command(root: Path, count: int, *more: object) -> list[str]:
    """The command line of a child that answers `count` prompts."""
    words = [sys.executable, "-m", "tests.support.append_child", str(root), FOLDER, str(count)]
    return [*words, *map(str, more)]


def child_environment(**fault: object) -> dict[str, str]:
    """The environment of a child, with the shim's orders (`call`, `errno`, `nth`, `times`, `short`, `path`, `call2`)."""
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
    if fault:
        environment["LD_PRELOAD"] = shim()
        environment |= {f"FAULT_{name.upper()}": str(value) for name, value in fault.items()}
    return environment


def write_answers(
    root: Path, count: int, *more: object, fault: Mapping[str, object] | None = None, limit: int | None = None
) -> Written:
    """Let a child answer `count` prompts to its end; `limit` bounds the size of any file in bytes."""

    def bound() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = subprocess.run(
        child_command(root, count, *more),
        env=child_environment(**(fault or {})),
        preexec_fn=bound,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    return read_output(done.returncode, done.stdout, done.stderr)


def read_output(code: int, out: str, err: str) -> Written:
    """What a child said."""
    said = out.splitlines()
    opened = next((line for line in said if line.startswith("opened ")), "opened []")
    lines = err.strip().splitlines()
    error = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else None
    assert code in (0, -9) or error is not None, f"ended with {code} and no clear line: {err}"
    return Written(
        code,
        error,
        [line.split()[1] for line in said if line.startswith("ack ")],
        json.loads(opened.removeprefix("opened ")),
    )


def assert_safe(root: Path, acknowledged: list[str]) -> None:
    """No acknowledged answer is lost, none is doubled, and no line but perhaps the torn last one is bad."""
    dataset = scan_root(root, Rules()).dataset(FOLDER)
    classes = dataset.classes
    assert (classes.unusable, classes.duplicates, classes.orphans, classes.repairable) == (0, 0, 0, 0), classes
    lost = set(acknowledged) - dataset.answered_ids()
    assert not lost, f"acknowledged and lost: {sorted(lost)}"
    assert len(acknowledged) == len(set(acknowledged))


def ends_whole(root: Path) -> bool:
    """Whether the answers end with a newline (or are empty)."""
    data = (root / FOLDER / "raw_responses.jsonl").read_bytes()
    return not data or data.endswith(b"\n")


@contextmanager
def tiny_disk(size: str) -> Iterator[Path]:
    """A tmpfs of a given size (`256k`); needs root."""
    needs_root("a small disk of its own is mounted")
    folder = Path(mkdtemp(prefix="eagle3-disk-"))
    mount, unmount = find("mount"), find("umount")
    if mount is None or unmount is None:
        pytest.skip("needs mount (apt-get install mount)")
    made = subprocess.run(
        [mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder],
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    if made.returncode:
        folder.rmdir()
        pytest.skip("needs the right to mount a tmpfs (a privileged container)")
    try:
        yield folder
    finally:
        subprocess.run([unmount, "-l", folder], check=True, timeout=DEADLINE_S)
        shutil.rmtree(folder, ignore_errors=True)
