"""Planning from the scanner's memory: a restarted agent's first plan, and those that follow.

    python -m tests.bench.bench_plan [--root DIR]

CPU milliseconds of one process. Without `--root` a tree with the full number of prompts, answers and rows is made,
whose answers are short: a plan reads none of them. Says how many bytes of data a plan has read, which is none.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from remote.facts import Surroundings
from remote.layout import Layout
from remote.options import Options
from remote.planning import make_plan
from remote.records import Rules
from remote.scan import RootScan, Scanner
from tests.support.tree import prompt, response, row, write_lines

TARGET_MS = 200.0
COUNTS = {
    "B1_glaive": (10_000, 10_000, 9_998),
    "B2_opencodeinstruct": (7_000, 7_000, 7_000),
    "B3_magicoder": (6_000, 4_545, 4_545),
    "B4_mixturethoughts": (4_500, 3_333, 3_333),
    "B5_openthoughts": (3_600, 2_778, 2_778),
    "B6_ultrachat": (2_600, 2_000, 2_000),
    "B7_sharegpt": (9_000, 7_143, 7_143),
    "B8_sweagent": (14_000, 11_111, 11_111),
}
"""Prompts, answers and rows of each dataset at the end of the real job."""


def make(root: Path) -> Path:
    """The tree. Two answers of B1 have no row, so that somebody must be looked up by name."""
    for folder, (prompts, answers, rows) in COUNTS.items():
        made = [response(f"{folder[:2]}-{number:06d}") for number in range(answers)]
        write_lines(
            root / folder / "prompts.jsonl", (prompt(f"{folder[:2]}-{number:06d}") for number in range(prompts))
        )
        write_lines(root / folder / "raw_responses.jsonl", made)
        write_lines(root / folder / "tokenized_data.jsonl", map(row, made[answers - rows :]))
    return root


def cpu_ms(work: Callable[[], object]) -> float:
    """CPU milliseconds of one call."""
    started = time.process_time()
    work()
    return 1e3 * (time.process_time() - started)


def main(argv: list[str] | None = None) -> int:
    """Print the figures with their target; 1 when it is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bench_plan")
    parser.add_argument("--root", type=Path, help="an END tree that is there already")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="eagle3-bench-") as folder:
        root = args.root or make(Path(folder) / "prepared")
        index = Path(folder) / "index.json"
        before = Scanner(root, Rules(), index)
        before.poll()
        before.save()
        scanner = Scanner(root, Rules(), index)
        scan = scanner.poll()
        read = scanner.bytes_read
        first = cpu_ms(lambda: plan(root, scan))
        later = min(cpu_ms(lambda: plan(root, scan)) for _ in range(5))
        rescanned = scanner.bytes_read - read
    ids = sum((dataset.prompts or 0) for dataset in scan.datasets)
    print(f"plan of {len(scan.datasets)} datasets, {ids:,} prompts, {sum(d.answered for d in scan.datasets):,} answers")
    print(f"  first after a start   {first:6.1f} ms   target <= {TARGET_MS:.0f}")
    print(f"  later                 {later:6.1f} ms   target <= {TARGET_MS:.0f}")
    print(f"  bytes of data read    {rescanned:6d}")
    return int(max(first, later) > TARGET_MS or rescanned > 0)


def plan(root: Path, scan: RootScan) -> str:
    """One plan as the agent makes it, processes and engine known already."""
    options = Options(root=str(root))
    made, _ = make_plan(Layout(root), scan, options, Surroundings(at=time.time(), gpus=8))
    return str(made.to_json())


if __name__ == "__main__":
    raise SystemExit(main())
