"""Small roots for generator tests, a run in this process with short waiting times, and one in a process of its own."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from remote.attempts import Backoff
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.gate import GatePace
from remote.generate import run
from remote.layout import PROMPTS, RESPONSES, Layout
from remote.options import Budget, Options
from remote.run_settings import Pace, RunSettings
from remote.tokenizing import option_words
from remote.watchdog import WatchPace
from tests.support.engine import wait_until
from tests.support.tokenizers import fast_model
from tests.support.tree import write_lines

REPO = Path(__file__).resolve().parents[2]
LIMIT_S = 60.0

QUICK_PACE = Pace(
    gate=GatePace(down_s=0.05, loading_s=0.05, look_limit_s=5.0),
    watch=WatchPace(grace_s=30.0, quiet_s=30.0),
    backoff=Backoff(first_s=0.01, longest_s=0.1),
    tick_s=0.05,
    control_every_s=0.02,
    model_every_s=0.1,
    cancel_limit_s=10.0,
    fall_limit_s=5.0,
)
"""A run that waits for nothing longer than it must, so that a test of a fault takes no minute."""


def ids_prompt(sample_id: str | int, *ids: int) -> dict[str, Any]:
    """A prompt that is tokenized already."""
    return {"sample_id": sample_id, "input_ids": list(ids)}


def make_root(root: Path, prompts: Mapping[str, int] | Mapping[str, Iterable[dict[str, Any]]]) -> Path:
    """A root with prompts alone: so many of them a folder, or those given. Their ids lie well inside the vocabulary."""
    for number, (folder, wanted) in enumerate(prompts.items()):
        rows: Iterable[dict[str, Any]]
        if isinstance(wanted, int):
            rows = [
                ids_prompt(f"{folder[:2]}-{place:05d}", 20 + number, 100 + place % 300, 30 + place // 300)
                for place in range(wanted)
            ]
        else:
            rows = wanted
        write_lines(root / folder / PROMPTS, rows)
    return root


def records(root: Path, folder: str) -> list[dict[str, Any]]:
    """The records of a dataset, each line parsed; a line that is no JSON fails the test."""
    path = root / folder / RESPONSES
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def tokens(root: Path, folder: str) -> int:
    """Completion tokens of a dataset."""
    return sum(len(record["output_ids"]) for record in records(root, folder))


def answered_once(root: Path, folder: str) -> set[str]:
    """The ids that are answered, after checking that none is answered twice."""
    ids = [str(record["sample_id"]) for record in records(root, folder)]
    assert len(ids) == len(set(ids)), "a prompt was answered twice"
    return set(ids)


def state_lines(root: Path, name: str) -> list[dict[str, Any]]:
    """The lines of a file under `.eagle3`."""
    path = Layout(root).state / name
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


@dataclass
class Ran:
    """What became of a run: its exit code, its log, and the error that ended it."""

    code: ExitCode
    log: str
    error: OperatorError | None = None


def make_options(root: Path, url: str, **changes: Any) -> Options:
    """Options for a test's run: the fast model, no tokenizing, a small budget."""
    budget = changes.pop("budget", 0)
    token_budget = budget if isinstance(budget, Budget) else Budget(budget)
    plain = Options(
        root=str(root),
        engine_url=url,
        model_path=fast_model().path,
        token_budget=token_budget,
        retokenize="never",
        concurrency=8,
        max_new_tokens=1_000,
        drain_s=10.0,
    )
    return replace(plain, **changes)


def run_here(options: Options, pace: Pace = QUICK_PACE, api_key: str | None = None, run_id: str = "test") -> Ran:
    """One run in this process; must be called in the main thread, whose signals it takes."""
    said = io.StringIO()
    with redirect_stderr(said):
        try:
            code = run(RunSettings(options, run_id, api_key=api_key, pace=pace))
        except OperatorError as error:
            return Ran(error.exit_code, said.getvalue(), error)
    return Ran(code, said.getvalue())


@contextmanager
def meanwhile(act: Callable[[], None], limit_s: float = LIMIT_S) -> Iterator[None]:
    """Do something in another thread while a run goes on in this one; what it raises fails the test."""
    errors: list[BaseException] = []

    def work() -> None:
        try:
            act()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield
    thread.join(limit_s)
    assert not thread.is_alive(), "the other thread did not end"
    if errors:
        raise errors[0]


def progress(root: Path) -> dict[str, Any]:
    """What the run last said of itself; empty when it has said nothing yet."""
    try:
        found: dict[str, Any] = json.loads(Layout(root).progress_json.read_bytes())
    except FileNotFoundError:
        return {}
    return found


class GeneratorProcess:
    """`python -m remote generate …`, its log in a file."""

    def __init__(self, options: Options, log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.log = log
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, *("-m", "remote", "generate"), *option_words(options)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                cwd=REPO,
                env={**os.environ, **(environment or {})},
            )
        self.pid = self._process.pid

    def said(self) -> str:
        """Its log so far."""
        return self.log.read_text(encoding="utf-8")

    def wait(self) -> int:
        """Its exit status."""
        return self._process.wait(LIMIT_S)

    def close(self) -> None:
        """End it, whatever it does."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(LIMIT_S)


class ForkedRun:
    """A run in a process of its own that was forked from this one, so that it need not import everything again."""

    def __init__(self, options: Options, log: Path, pace: Pace = QUICK_PACE, run_id: str = "forked") -> None:
        fast_model()
        self.log = log
        self._status: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            os._exit(self._run(options, pace, run_id))

    def _run(self, options: Options, pace: Pace, run_id: str) -> int:
        with self.log.open("a", encoding="utf-8", buffering=1) as file, redirect_stderr(file):
            try:
                return int(run(RunSettings(options, run_id, pace=pace)))
            except OperatorError as error:
                print(error, file=file)
                return int(error.exit_code)
            except BaseException as error:
                print(f"{type(error).__name__}: {error}", file=file)
                return 99

    def said(self) -> str:
        """Its log so far."""
        return self.log.read_text(encoding="utf-8") if self.log.exists() else ""

    def signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = os.waitstatus_to_exitcode(status) if pid else None
        return self._status is not None

    def wait(self) -> int:
        """Its exit status; a negative number is the signal that ended it."""
        wait_until("the run to end", lambda: self.ended, LIMIT_S)
        assert self._status is not None
        return self._status

    def close(self) -> None:
        """End it, whatever it does."""
        if not self.ended:
            self.signal(signal.SIGKILL)
            self.wait()
