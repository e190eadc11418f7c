"""Rebuilding under faults that are really injected: killed at any moment, a full disk, files that change under it."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.layout import PROMPTS, TOKENIZED_META
from remote.model import read_model
from remote.render import Tokenizer
from remote.retokenize import Outcome, retokenize_dataset
from tests.support.answered import Answered
from tests.support.tokenizers import fast_model


def _make(root: Path, prompts: int, answers: int, length: int = 12) -> Answered:
    made = Answered(root, fast_model().tokenizer, max(read_model(fast_model().path).eos_ids))
    made.write_prompts(prompts)
    made.append(*(made.record(f"s{place}", length) for place in range(answers)))
    return made


def _retokenize(data: Answered, tokenizer: Any = None, **options: object) -> Outcome:
    return retokenize_dataset(
        data.layout, data.folder, replace(fast_model().options, **options), tokenizer or fast_model().tokenizer
    )


def _in_child(work: Callable[[], object]) -> int:
    """Run `work` in a forked child and return its wait status; 7 is an OperatorError that says `disk`."""
    pid = os.fork()
    if pid == 0:
        code = 0
        try:
            work()
        except OperatorError as error:
            code = 7 if error.exit_code is ExitCode.DISK else 8
        except BaseException:
            code = 9
        os._exit(code)
    return os.waitpid(pid, 0)[1]


def _kill_at(after_s: float, data: Answered) -> int:
    """Rebuild in a child that dies at once, without any cleaning up, after so many seconds."""

    def work() -> None:
        # SIGALRM's default is to end the process on the spot: a SIGKILL with a clock of the kernel's own.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, after_s)
        _retokenize(data)

    return _in_child(work)


def _killed_at_random(tmp_path: Path, times: int) -> None:
    data = _make(tmp_path, 60, 50)
    _retokenize(data)
    old, old_meta = data.tokenized.read_bytes(), (data.path / TOKENIZED_META).read_bytes()
    data.append(*(data.record(f"s{place}", 12) for place in range(50, 60)))
    started = time.monotonic()
    _retokenize(data)
    whole_s = time.monotonic() - started
    new = data.tokenized.read_bytes()
    assert new != old
    draw, killed = random.Random(5), 0
    for _ in range(times):
        data.tokenized.write_bytes(old)
        (data.path / TOKENIZED_META).write_bytes(old_meta)
        status = _kill_at(draw.uniform(0.0005, whole_s), data)
        killed += os.WIFSIGNALED(status)
        left = data.tokenized.read_bytes()
        assert left in (old, new)
        if left == new:
            kept = [path.read_bytes() for path in data.layout.previous.glob("*.jsonl")]
            assert old in kept
        assert _retokenize(data).result in ("replaced", "identical", "up-to-date")
        assert data.tokenized.read_bytes() == new
        assert not [path.name for path in data.path.iterdir() if path.name.endswith(".tmp")]
    assert killed, "no kill came in time"


def test_killed_at_any_moment_the_old_rows_or_the_new_ones_are_there(tmp_path: Path) -> None:
    _killed_at_random(tmp_path, 12)


@pytest.mark.soak
def test_killed_two_hundred_times(tmp_path: Path) -> None:
    _killed_at_random(tmp_path, 200)


def test_a_file_that_may_not_grow_leaves_the_present_rows(tmp_path: Path) -> None:
    data = _make(tmp_path, 30, 20)
    _retokenize(data)
    before, meta = data.tokenized.read_bytes(), (data.path / TOKENIZED_META).read_bytes()
    data.append(*(data.record(f"s{place}", 400) for place in range(20, 30)))

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))
        _retokenize(data)

    assert os.waitstatus_to_exitcode(_in_child(work)) == 7
    assert (data.tokenized.read_bytes(), (data.path / TOKENIZED_META).read_bytes()) == (before, meta)
    assert not list(data.path.glob(".*.tmp"))
    assert _retokenize(data).result == "replaced"


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system with 64 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if os.geteuid() != 0 or shutil.which("mount") is None or subprocess.run(words, check=False).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_leaves_the_present_rows_and_says_so(tiny_disk: Path) -> None:
    data = _make(tiny_disk, 30, 20)
    _retokenize(data)
    before = data.tokenized.read_bytes()
    data.append(*(data.record(f"s{place}", 120) for place in range(20, 30)))
    filler = tiny_disk / "filler"
    with filler.open("wb", buffering=0) as out:
        try:
            while out.write(bytes(4096)) == 4096:
                pass
        except OSError:
            pass
    with pytest.raises(OperatorError) as caught:
        _retokenize(data)
    assert caught.value.exit_code is ExitCode.DISK
    assert "present rows are as they were" in caught.value.message
    assert data.tokenized.read_bytes() == before
    filler.unlink()
    assert _retokenize(data).result == "replaced"


class _Meddling:
    """The real tokenizer, with something else happening on the disk when the third prompt is rendered."""

    def __init__(self, tokenizer: Tokenizer, meddle: Callable[[], object]) -> None:
        self.fingerprint = tokenizer.fingerprint
        self._tokenizer = tokenizer
        self._meddle = meddle
        self._left = 3

    def prompt_ids(self, prompt: Any) -> list[int]:
        self._left -= 1
        if self._left == 0:
            self._meddle()
        return self._tokenizer.prompt_ids(prompt)


def test_answers_that_arrive_meanwhile_are_for_the_next_rebuild(tmp_path: Path) -> None:
    data = _make(tmp_path, 30, 20)
    late = data.record("s25")
    outcome = _retokenize(data, _Meddling(fast_model().tokenizer, lambda: data.append(late)))
    assert outcome.result == "written" and len(data.rows()) == 20
    # The late one is not missed: what was read is what the meta file vouches for.
    assert _retokenize(data).result == "replaced"
    assert data.rows()[-1]["input_ids"][-len(late["output_ids"]) :] == late["output_ids"]


@pytest.mark.parametrize("which", ["prompts", "responses"])
def test_a_file_replaced_under_it_is_noticed_and_nothing_is_swapped(which: str, tmp_path: Path) -> None:
    data = _make(tmp_path, 30, 20)
    _retokenize(data)
    before = data.tokenized.read_bytes()
    path = data.path / PROMPTS if which == "prompts" else data.responses

    def replace_it() -> None:
        other = path.with_name("other")
        other.write_bytes(path.read_bytes())
        other.rename(path)

    with pytest.raises(OperatorError) as caught:
        _retokenize(data, _Meddling(fast_model().tokenizer, replace_it), retokenize="always")
    assert caught.value.code == "moved" and path.name in caught.value.message
    assert data.tokenized.read_bytes() == before
    assert not list(data.path.glob(".*.tmp"))


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """CASES F13, measured by Python's own allocator: four times the file, the same peak but for the ids."""
    peaks = []
    for name, answers in (("small", 30), ("large", 120)):
        data = _make(tmp_path / name, 120, 0)
        line = json.dumps(data.record("s0", 8000))
        for place in range(answers):
            count = len(data.prompt_ids(f"s{place}"))
            text = line.replace('"s0"', f'"s{place}"', 1)
            data.append(json.dumps({**json.loads(text), "prompt_tokens": count}).encode() + b"\n")
        tracemalloc.start()
        outcome = _retokenize(data)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert outcome.meta is not None and outcome.meta.rows == answers
    assert data.responses.stat().st_size > 4_000_000
    assert peaks[1] - peaks[0] < 700_000, peaks
