"""`make soak`: an engine that crashes and returns at random, generators killed at random, a disk that fills once. At the
end every account is square: each prompt answered once or set aside by name, every line whole, nothing left running.

`EAGLE3_SOAK_S` is how long it goes on; 1,800 s when not given.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from remote.exitcodes import ExitCode
from remote.layout import RESPONSES, Layout
from tests.support.disks import tiny_disk
from tests.support.engine import StandIn, stand_in, wait_until
from tests.support.generating import ForkedRun, answered_once, make_options, make_root, records, state_lines

FOLDERS = {"B3_magicoder": 10_000, "B5_openthoughts": 10_000, "B8_sweagent": 10_000}
"""More than is answered before the disk fills, and less than the disk has room for: a run that has none refuses to start."""
DISK = "768m"
FINISH_S = 1_200.0
DURATION_S = float(os.environ.get("EAGLE3_SOAK_S", "1800"))


class Night:
    """One root, one engine, one generator after the other."""

    def __init__(self, root: Path, engine: StandIn, log: Path, seed: int) -> None:
        self.root = root
        self.engine = engine
        self.draw = random.Random(seed)
        self.kills = self.crashes = self.stops = 0
        self._log = log
        self._number = 0
        self.generator: ForkedRun | None = None

    def ensure_generator(self) -> ForkedRun:
        """The generator that runs, started anew when the last one has ended."""
        if self.generator is None or self.generator.ended:
            self._number += 1
            options = make_options(self.root, self.engine.url, concurrency=16, drain_s=1.0)
            self.generator = ForkedRun(options, self._log, run_id=f"run-{self._number:04d}")
        return self.generator

    def happen(self) -> None:
        """One thing of a night."""
        generator = self.ensure_generator()
        what = self.draw.choice(["kill", "kill", "crash", "stop", "fault"])
        if what == "kill":
            generator.signal(signal.SIGKILL)
            generator.wait()
            self.kills += 1
        elif what == "crash":
            self.engine.kill()
            time.sleep(self.draw.uniform(0.0, 0.5))
            self.engine.start()
            self.crashes += 1
        elif what == "stop":
            generator.signal(signal.SIGTERM)
            generator.wait()
            self.stops += 1
        else:
            kind = self.draw.choice(["disconnect", "garbage", "nan", "abort", "truncate", "cut"])
            self.engine.fault(kind, count=self.draw.randint(1, 4))

    def end(self) -> None:
        """Let whatever runs finish in peace, then once more from the start: what is left is answered."""
        for attempt in ("the one that runs", "the last one"):
            generator = self.ensure_generator()
            wait_until(attempt, lambda generator=generator: generator.ended, FINISH_S)
        assert generator.wait() == ExitCode.DONE, generator.said()[-3_000:]


@pytest.mark.soak
def test_a_long_night_ends_with_every_account_square(tmp_path: Path) -> None:
    with tiny_disk(DISK) as disk, stand_in(request_tokens_s=200, mean_tokens=150) as engine:
        root = make_root(disk / "root", FOLDERS)
        night = Night(root, engine, tmp_path / "log", seed=int(time.time()))
        began, filled = time.monotonic(), False
        try:
            while time.monotonic() - began < DURATION_S:
                night.ensure_generator()
                time.sleep(night.draw.uniform(0.2, 5.0))
                night.happen()
                if not filled and time.monotonic() - began > DURATION_S / 4:
                    filled = True
                    fill_once(night, disk)
                if all(lines_of(root, folder) >= count - 50 for folder, count in FOLDERS.items()):
                    break
            assert filled, "the work ran out before the disk was filled: give FOLDERS more prompts"
            engine.fault("clear")
            night.end()
        finally:
            if night.generator is not None:
                night.generator.close()
        assert engine.seen()["running"] == [] and engine.seen()["waiting"] == []
        check_accounts(root)
        took_s = time.monotonic() - began
        print(
            f"{took_s:.0f} s: {night.kills} kills, {night.crashes} crashes, {night.stops} stops, {night._number} runs"
        )


def lines_of(root: Path, folder: str) -> int:
    """How many lines its answers have: enough to see the work's end coming."""
    path = root / folder / RESPONSES
    return path.read_bytes().count(b"\n") if path.exists() else 0


def fill_once(night: Night, disk: Path) -> None:
    """Fill the disk under a running generator: it ends with the disk's exit code, and goes on when there is room."""
    generator = night.ensure_generator()
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as out:
        try:
            while out.write(bytes(1 << 20)):
                continue
        except OSError:
            pass
    wait_until("the run to end of it", lambda: generator.ended)
    filler.unlink()


def check_accounts(root: Path) -> None:
    """Each prompt answered exactly once or set aside; every line whole; provenance for each answer."""
    aside: dict[tuple[str, str], str] = {}
    for line in state_lines(root, "failed.jsonl"):
        aside.pop((line["dataset"], line["sample_id"]), None)
        if not line.get("lifted"):
            aside[line["dataset"], line["sample_id"]] = line["reason"]
    for folder, count in FOLDERS.items():
        answered = answered_once(root, folder)
        missing = count - len(answered)
        assert missing == sum(1 for dataset, key in aside if dataset == folder and key not in answered)
        digests = {line["sample_id"] for line in state_lines(root, f"answers/{folder}.jsonl")}
        assert answered <= digests
        assert (root / folder / RESPONSES).read_bytes().endswith(b"\n")
        for record in records(root, folder):
            assert record["finish_reason"] in ("stop", "length")
            assert record["completion_tokens"] == len(record["output_ids"]) > 0
    assert not json.dumps(list(aside.values())).count("disk")
    assert not Layout(root).torn.exists() or all(path.stat().st_size for path in Layout(root).torn.iterdir())
