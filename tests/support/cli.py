"""Run the two programs as a user does: as processes, with an environment of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Ran:
    """How a program ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Its stdout as JSON; fails with its stderr when there is none."""
        assert self.out, f"exit {self.code}: {self.err}"
        return json.loads(self.out)


def environment(home: Path, **more: str) -> dict[str, str]:
    """An environment without anything of the real user's."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    folders = {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("CONFIG", "CACHE", "STATE", "DATA")}
    return {**kept, **folders, "HOME": str(home), "PYTHONPATH": str(REPO), "TERM": "xterm-256color", **more}


def console(*words: str, home: Path, timeout_s: float = 180.0, **more: str) -> Ran:
    """`eagle3-console WORDS`, without a terminal."""
    return run([sys.executable, "-m", "console.cli", *words], environment(home, **more), timeout_s)


def start_console(*words: str, home: Path, **more: str) -> subprocess.Popen[str]:
    """The same, not waited for."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-m", "console.cli", *words],
        env=environment(home, **more),
        stdin=subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        text=True,
        cwd="/",
    )


def run(argv: list[str], env: Mapping[str, str], timeout_s: float) -> Ran:
    """Any program, to its end."""
    done = subprocess.run(
        argv, env=dict(env), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, cwd="/"
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def wait_until(condition: Callable[[], bool], limit_s: float, what: str) -> None:
    """Look again and again until something holds; fails with `what` when it never does."""
    until = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"not within {limit_s:g} s: {what}")
        time.sleep(0.05)
