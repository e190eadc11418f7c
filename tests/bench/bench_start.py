"""What a start costs: the helper until it is ready and until everything is known, `status` in all, `--help`, the screen's imports.

    python -m tests.bench.bench_start [--rounds 5]

CPU seconds, the least of some rounds, and as a multiple of a bare Python's start in the same run, which is what the
targets are about: neighbours on the machine change seconds, not ratios. The helper's own children are not in its
figures; `status` has everything that it started in it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from console.ship import package
from remote import stage0
from remote.options import Options
from tests.support.tree import make_tree

REPO = Path(__file__).resolve().parents[2]
NOBODY = "http://127.0.0.1:9"
BARE = "a bare Python"
TARGETS = {
    "helper compiled: ready": 24.0,
    "helper compiled: all known": 30.0,
    "status, helper there": 85.0,
    "--help": 14.0,
    "import console.app": 45.0,
}
"""Multiples of a bare Python's start; the other lines are for comparison."""


def command_s(*words: str, **environment: str) -> float:
    """CPU seconds of a command and all that it waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, *words], cwd=REPO, env={**os.environ, **environment}, capture_output=True, timeout=120
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr.decode()
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def helper_s(program: Path, root: Path) -> tuple[float, float]:
    """CPU seconds of a helper until it says ready, and until every part has been looked at once."""
    child = subprocess.Popen(
        [sys.executable, "-I", "-B", "-u", str(program), "agent"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert child.stdin is not None and child.stdout is not None
    # The clock of another process's CPU time, ended threads included (clock_getcpuclockid(3)).
    clock = (~child.pid << 3) | 2
    try:
        next(line for line in child.stdout if b" ready " in line)
        ready_s = time.clock_gettime(clock)
        options = Options(root=str(root), engine_url=NOBODY)
        hello = {"jsonrpc": "2.0", "id": 1, "method": "hello", "params": {"options": options.to_json(), "release": ""}}
        child.stdin.write(json.dumps(hello).encode() + b"\n")
        child.stdin.flush()
        next(line for line in child.stdout if _nothing_pending(json.loads(line)))
        return ready_s, time.clock_gettime(clock)
    finally:
        child.stdin.close()
        child.wait(10)
        child.stdout.close()


def _nothing_pending(message: dict[str, Any]) -> bool:
    """Whether a notification says that all has been looked at once; a patch that does not touch it says nothing."""
    if message.get("method") not in ("snapshot", "patch"):
        return False
    return message["params"][2].get("pending", ["not said"]) in ([], None)


def measure(folder: Path) -> dict[str, float]:
    """One round: CPU seconds by name."""
    root = make_tree(folder / "tree")
    stored = folder / package().name
    stored.write_bytes(package().data)
    found = {BARE: min(command_s("-I", "-S", "-c", "pass") for _ in range(3))}
    found["helper from the zip: ready"], found["helper from the zip: all known"] = helper_s(stored, root)
    began_s = time.process_time()
    compiled = Path(stage0.compiled(str(stored), os.getuid()))
    found["compiling it, once"] = time.process_time() - began_s
    found["helper compiled: ready"], found["helper compiled: all known"] = helper_s(compiled, root)
    places = {"XDG_CACHE_HOME": str(folder / "cache"), "XDG_CONFIG_HOME": str(folder / "config")}
    status = ("-m", "console.cli", "status", "local", "--root", str(root), "--engine-url", NOBODY, "--json")
    found["status, helper sent"] = command_s(*status, **places)
    found["status, helper there"] = command_s(*status, **places)
    found["--help"] = command_s("-m", "console.cli", "--help", **places)
    found["import console.app"] = command_s("-c", "import console.app")
    return found


def main() -> int:
    """Print the figures beside their targets; 1 when one is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds: list[dict[str, float]] = []
    for _ in range(parser.parse_args().rounds):
        with tempfile.TemporaryDirectory() as folder:
            rounds.append(measure(Path(folder)))
    missed = False
    for name in rounds[0]:
        least_s = min(one[name] for one in rounds)
        ratio = least_s / min(one[BARE] for one in rounds)
        target = TARGETS.get(name)
        over = target is not None and ratio > target
        missed |= over
        told = "" if target is None else f"   target ≤ {target:g} ×{'   MISSED' if over else ''}"
        print(f"start: {name:32}{1000 * least_s:7.0f} ms CPU {ratio:6.1f} ×{told}")
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())
