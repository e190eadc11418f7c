"""What one update costs on the wire, with a real agent on a tree that is being written.

    python -m tests.bench.bench_wire [--seconds 20]

A launched stand-in generator says what a real one says in progress.json, once a second; this program appends its
answers. Bytes are those of the lines that the agent sends, envelope included, before SSH compresses them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from remote.identity import Identity
from remote.layout import RESPONSES, Layout
from remote.options import Budget, Options
from remote.progress import write_progress
from tests.support.agent import AgentProcess, agent, append_line
from tests.support.runs import end_all, fake_python
from tests.support.tree import SMALL_BUDGET, make_tree, response

IDLE_TARGET_BYTES = 64
DATASET_TARGET_BYTES = 256
FOLDERS = ("B4_mixturethoughts", "B5_openthoughts")
ACCEPTED = ("python", "imports", "tokenizer", "model", "engine", "disk")


def main() -> None:
    """Print the figures, each beside its target."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20.0)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "prepared"
        root.mkdir()
        make_tree(root, "mid")
        os.environ["XDG_CACHE_HOME"] = folder
        options = Options(
            root=str(root),
            token_budget=Budget(SMALL_BUDGET * 100),
            engine_url="http://127.0.0.1:9",
            python=str(fake_python(root.parent)),
            accept=ACCEPTED,
        )
        try:
            with agent(options) as it:
                idle = _idle(it, seconds / 4)
                launched = it.call("launch", {"options": options.to_json(), "by": "bench@here"}, 60)
                it.until(lambda snapshot: snapshot["generator"]["verdict"] == "running")
                updates = _working(it, Layout(root), launched, seconds)
        finally:
            end_all(Layout(root))
    whole = max(len(line) for line in it.notifications("snapshot"))
    print(f"wire: idle update          {max(idle):>6} B      target <= {IDLE_TARGET_BYTES} B   ({len(idle)} ticks)")
    costs = sorted(size / changed for size, changed in updates)
    print(
        f"wire: per changed dataset  {costs[len(costs) // 2]:>6.0f} B      target <= {DATASET_TARGET_BYTES} B   (median of {len(costs)}; worst {costs[-1]:.0f} B)"
    )
    per_s = sum(size for size, _ in updates) / seconds
    print(f"wire: whole snapshot       {whole:>6} B      once a connection")
    print(f"wire: two datasets at work {per_s:>6.0f} B/s    {100 * per_s / 32_000:.1f} % of a 256 kbit/s link")


def _idle(it: AgentProcess, seconds: float) -> list[int]:
    before = len(it.notifications("tick"))
    time.sleep(seconds)
    return [len(line) for line in it.notifications("tick")[before:]]


def _working(it: AgentProcess, layout: Layout, launched: dict[str, Any], seconds: float) -> list[tuple[int, int]]:
    """(bytes, changed datasets) of every patch that a dataset is in, while both get answers at an uneven pace."""
    rng = random.Random(7)
    identity = Identity.from_json(launched["identity"])
    assert identity is not None
    before = len(it.notifications("patch"))
    tokens = dict.fromkeys(FOLDERS, 0)
    answered = dict.fromkeys(FOLDERS, 0)
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        for folder in FOLDERS:
            for _ in range(rng.randrange(3)):
                length = rng.randrange(50, 400)
                append_line(
                    layout.folder(folder) / RESPONSES,
                    response(_sample(folder, answered[folder]), length, rng.choice(["stop", "stop", "length"])),
                )
                tokens[folder] += length
                answered[folder] += 1
        write_progress(layout, _progress(launched, tokens, answered, rng))
        time.sleep(0.5)
    patches = [(len(line), json.loads(line)["params"][2]) for line in it.notifications("patch")[before:]]
    return [(size, len(patch["datasets"])) for size, patch in patches if patch.get("datasets")]


def _sample(folder: str, number: int) -> str:
    return f"{folder.split('_')[0]}-{number:06}"


def _progress(
    launched: dict[str, Any], tokens: dict[str, int], answered: dict[str, int], rng: random.Random
) -> dict[str, Any]:
    """What `remote.telling` writes, as far as the agent reads it."""
    rows = {
        folder: {
            "tokens": tokens[folder],
            "budget": SMALL_BUDGET * 100,
            "in_flight": rng.randrange(28, 36),
            "left": 1000,
            "expected_tokens": tokens[folder] + 5000,
            "rate_tokens_s": 300 + rng.random() * 40,
            "last_answer_at": time.time(),
        }
        for folder in FOLDERS
    }
    return {
        "run": launched["run_id"],
        "at": time.time(),
        "state": "running",
        "paused": False,
        "in_flight": 64,
        "in_work": list(FOLDERS),
        "answers": sum(answered.values()),
        "rate_tokens_s": 620 + rng.random() * 60,
        "retries": 0,
        "errors": {},
        "engine_state": "ok",
        "datasets": rows,
    }


if __name__ == "__main__":
    main()
