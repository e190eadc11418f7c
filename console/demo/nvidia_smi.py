#!/usr/bin/env python3
"""The stand-in container's `nvidia-smi`: eight RTX PRO 6000 whose load follows the stand-in engine.

Standard library alone; run by its own path, it imports nothing of ours. EAGLE3_DEMO_GPUS names a
JSON file `{"load": 0..1, "gpus": 8, "say": "text instead", "exit": N, "hang_s": S}`; every key may
be missing. Without a `load` there the engine's at EAGLE3_DEMO_ENGINE (`/metrics`) is asked, and an
engine that does not answer leaves the GPUs idle.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
import urllib.request
from typing import Any

NAME = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
TOTAL_MIB = 97887
WEIGHTS_MIB = 84120
IDLE_W, FULL_W = 62.0, 588.0


def read_state() -> dict[str, Any]:
    """What the state file says; empty when there is none."""
    try:
        with open(os.environ.get("EAGLE3_DEMO_GPUS", ""), encoding="utf-8") as file:
            value = json.load(file)
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def engine_load() -> float:
    """The share of the engine's places that are taken, from its metrics; 0 when it does not answer."""
    url = os.environ.get("EAGLE3_DEMO_ENGINE", "")
    if not url:
        return 0.0
    try:
        with urllib.request.urlopen(url.rstrip("/") + "/metrics", timeout=1) as response:
            text = response.read(1 << 20).decode("utf-8", "replace")
    except (OSError, ValueError):
        return 0.0
    running = [line.rsplit(" ", 1)[-1] for line in text.splitlines() if line.startswith("sglang:num_running_reqs")]
    return min(1.0, float(running[0]) / 64) if running else 0.0


def rows(state: dict[str, Any]) -> list[str]:
    """The lines of the query that the agent makes: index, name, utilisation, memory, temperature, power."""
    load = float(state.get("load", engine_load()))
    random.seed(int(time.time() // 2))
    out = []
    for index in range(int(state.get("gpus", 8))):
        busy = 0 if load <= 0 else max(1, min(100, round(72 + 26 * load + random.gauss(0, 2))))
        used = WEIGHTS_MIB + round(9000 * load) + index * 16
        temperature = round(34 + busy * 0.38 + index % 4 + random.gauss(0, 0.6))
        power = IDLE_W + (FULL_W - IDLE_W) * busy / 100 * (0.82 + 0.02 * (index % 5))
        out.append(f"{index}, {NAME}, {busy}, {used}, {TOTAL_MIB}, {temperature}, {power:.2f}")
    return out


def main() -> int:
    """Print what the real one would."""
    state = read_state()
    time.sleep(float(state.get("hang_s", 0)))
    if "say" in state:
        print(state["say"])
    elif any(word.startswith("--query-gpu") for word in sys.argv[1:]):
        print("\n".join(rows(state)))
    else:
        print("\n".join(row.replace(", ", "  ") for row in rows(state)))
    return int(state.get("exit", 0))


if __name__ == "__main__":
    sys.exit(main())
