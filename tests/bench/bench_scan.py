"""The scan on a full-size tree, against the plainest way to do as little.

    python -m tests.bench.bench_scan [--scale F] [--root DIR] [--only NAME]

CPU seconds of one process, ours and the plain way in turn on the same file, so that a busy
machine slows both. `check` is all that the scan does with the answers: reading, checksums,
types, range, counts, duplicates. The tree is made once under `.bench/` (1.4 GB at scale 1).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from remote.classes import Tally
from remote.layout import RESPONSES
from remote.records import Judge, Rules, judge_for, plain_judge
from remote.scan import Scanner
from remote.tables import IdTable, ResponseTable
from remote.watched import END_BYTES, WatchedFile
from tests.bench.trees import EOS_ID, make

RULES = Rules(eos_ids=frozenset({EOS_ID}))
CHECK_TARGET = 0.65
PLAIN_CHECK_TARGET = 1.3
MEMORY_TARGET_MIB = 100
POLL_TARGET = 2.0
START_TARGET = 1 / 100
INDEX_TARGET_BYTES = 1 << 20


def cpu_s(work: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    started = time.process_time()
    work()
    return time.process_time() - started


def loads_all(path: Path) -> None:
    """The plain way: parse each line and forget it."""
    with open(path, "rb") as file:
        for line in file:
            json.loads(line)


def check_all(path: Path, judge: Judge) -> None:
    """What the scan does with one dataset's answers."""
    table, tally = ResponseTable(IdTable(), judge), Tally()
    WatchedFile(str(path)).refresh(table)
    tally.bring_up(table, None)
    assert tally.valid == table.lines > 0, "the bench's tree is sound"


def bench_check(root: Path) -> bool:
    """Every record checked, with msgspec and without, against `json.loads`."""
    typed, plain = judge_for(RULES), plain_judge(RULES)
    loads = fast = slow = 0.0
    size = 0
    for path in sorted(root.glob(f"*/{RESPONSES}")):
        size += path.stat().st_size
        loads += cpu_s(lambda path=path: loads_all(path))  # type: ignore[misc]
        fast += cpu_s(lambda path=path: check_all(path, typed))  # type: ignore[misc]
        slow += cpu_s(lambda path=path: check_all(path, plain))  # type: ignore[misc]
    print(f"check of every answer, {size / 1e6:.0f} MB, against a json.loads loop of {loads:.2f} s")
    print(f"  msgspec            {fast:6.2f} s = {fast / loads:.2f} x   target <= {CHECK_TARGET}")
    print(f"  standard library   {slow:6.2f} s = {slow / loads:.2f} x   target <= {PLAIN_CHECK_TARGET}")
    return fast / loads <= CHECK_TARGET and slow / loads <= PLAIN_CHECK_TARGET


_COLD = """
import re, sys, time
from pathlib import Path
from remote.records import Rules
from remote.scan import Scanner
scanner = Scanner(Path(sys.argv[1]), Rules(eos_ids=frozenset({int(sys.argv[2])})), Path(sys.argv[3]))
started, wall = time.process_time(), time.perf_counter()
scan = scanner.poll()
spent = time.process_time() - started, time.perf_counter() - wall
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]  # ru_maxrss includes the parent's
print(*spent, scanner.bytes_read, peak, sum(d.answered for d in scan.datasets))
assert scanner.save(), scanner.index_error
"""


def look(root: Path, index: Path) -> tuple[float, float, int, float, int]:
    """A first look in a process of its own: CPU s, wall s, bytes read, peak MiB, answers."""
    words = [sys.executable, "-c", _COLD, str(root), str(EOS_ID), str(index)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=1800)
    cpu, wall, read, peak_kib, answers = done.stdout.split()
    return float(cpu), float(wall), int(read), int(peak_kib) / 1024, int(answers)


def bench_start(root: Path) -> bool:
    """Memory of a cold scan, and what a start from the index costs."""
    with tempfile.TemporaryDirectory(prefix="eagle3-bench-") as folder:
        index = Path(folder) / "index.json"
        cpu, wall, read, peak, answers = look(root, index)
        warm = min((look(root, index) for _ in range(3)), key=lambda one: one[0])
        size = index.stat().st_size
    assert warm[4] == answers
    ratio = warm[0] / cpu
    print(f"cold scan of everything, {read / 1e9:.2f} GB, {answers:,} answers: {cpu:.2f} s of CPU, {wall:.2f} s")
    print(f"  peak memory        {peak:6.0f} MiB         target <= {MEMORY_TARGET_MIB}")
    print(
        f"  start from index   {warm[0] * 1e3:6.1f} ms = 1/{1 / ratio:.0f}    target <= 1/{1 / START_TARGET:.0f}, {warm[2]} bytes read"
    )
    print(f"  size of the index  {size / 1024:6.0f} KiB         target <= {INDEX_TARGET_BYTES >> 10}")
    return peak <= MEMORY_TARGET_MIB and ratio <= START_TARGET and size <= INDEX_TARGET_BYTES


def bench_poll(root: Path) -> bool:
    """An idle look, against bare `os.stat` of the same files."""
    scanner = Scanner(root, RULES)
    scanner.poll()
    time.sleep(0.05)
    scanner.poll()
    names = [str(path) for path in root.glob("B*/*.jsonl")]
    read, times = scanner.bytes_read, 2_000

    def polls() -> None:
        for _ in range(times):
            scanner.poll()

    def stats() -> None:
        for _ in range(times):
            for name in names:
                os.stat(name)

    pairs = [(cpu_s(polls), cpu_s(stats)) for _ in range(5)]
    ours, bare = min(one for one, _ in pairs), min(other for _, other in pairs)
    print(f"idle look at {len(names)} files")
    print(
        f"  {ours / times * 1e6:5.0f} us / {bare / times * 1e6:4.0f} us of bare stats = {ours / bare:.2f} x"
        f"   target <= {POLL_TARGET:.0f}, {scanner.bytes_read - read} bytes read"
    )
    return ours / bare <= POLL_TARGET and scanner.bytes_read == read


def bench_append(root: Path) -> bool:
    """What is read after appends to a full-size file (a copy of one)."""
    source = max(root.glob(f"*/{RESPONSES}"), key=lambda path: path.stat().st_size)
    with tempfile.TemporaryDirectory(prefix="eagle3-bench-") as folder:
        copy = Path(folder) / source.parent.name / RESPONSES
        copy.parent.mkdir()
        data = source.read_bytes()
        copy.write_bytes(data)
        line = data[: data.index(b"\n") + 1]
        scanner = Scanner(Path(folder), RULES)
        scanner.poll()
        worst, spent = 0, 0.0
        for _ in range(100):
            with open(copy, "ab") as file:
                file.write(line)
            before = scanner.bytes_read
            spent += cpu_s(scanner.poll)
            worst = max(worst, scanner.bytes_read - before - len(line))
    print(f"look after an append of {len(line):,} bytes to {len(data) / 1e6:.0f} MB: {spent * 10:.2f} ms of CPU")
    print(f"  read beyond them   {worst:6d} bytes       target <= {2 * END_BYTES}")
    return worst <= 2 * END_BYTES


BENCHES = {"check": bench_check, "start": bench_start, "poll": bench_poll, "append": bench_append}


def main(argv: list[str] | None = None) -> int:
    """Print the ratios with their targets; 1 when one is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bench_scan")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--root", type=Path, help="an END tree that is there already")
    parser.add_argument("--only", choices=sorted(BENCHES))
    args = parser.parse_args(argv)
    root = args.root or make(Path(".bench") / f"end-{args.scale:g}" / "prepared", args.scale)
    met = [bench(root) for name, bench in BENCHES.items() if args.only in (None, name)]
    return int(not all(met))


if __name__ == "__main__":
    raise SystemExit(main())
