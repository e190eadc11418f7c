"""The older script as a real process against the stand-in engine: what the operator of the demo finds running."""

from __future__ import annotations

import json
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.demo import older_script
from console.demo.data import MAX_SAMPLES, make_data
from remote.layout import RESPONSES
from remote.model import read_model
from remote.records import Rules, check
from tests.support.tokenizers import fast_model

REPOSITORY = Path(__file__).parents[2]
B2, B3 = "B2_opencodeinstruct", "B3_magicoder"
LIMIT_S = 60.0


def _line(child: subprocess.Popen[str]) -> str:
    """The child's next line. Fails when it says nothing for a minute."""
    assert child.stdout is not None
    assert select.select([child.stdout], [], [], LIMIT_S)[0], "it said nothing"
    return child.stdout.readline()


@pytest.fixture
def engine_url() -> Iterator[str]:
    words = [sys.executable, "-m", "console.demo.engine", "--model-path", fast_model().path]
    fast = ["--request-tokens-s", "1e6", "--batch-tokens-s", "1e7", "--mean-tokens", "60"]
    with subprocess.Popen([*words, *fast], stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as engine:
        yield json.loads(_line(engine))["url"]
        engine.terminate()


@pytest.fixture
def incident(tmp_path: Path) -> Path:
    make_data(tmp_path / "prepared", Path(fast_model().path), tmp_path / "work")
    shutil.copy(older_script.__file__, tmp_path / "work" / "run_inference.py")
    return tmp_path


def _start(incident: Path, engine_url: str, samples: int = MAX_SAMPLES) -> subprocess.Popen[str]:
    """As a stranger would: isolated from our packages, the script alone."""
    script = str(incident / "work" / "run_inference.py")
    words = ["--root", str(incident / "prepared"), "--engine-url", engine_url, "--max-samples", str(samples)]
    return subprocess.Popen([sys.executable, "-I", script, *words], stdout=subprocess.PIPE, text=True, cwd=incident)


def _records(incident: Path, folder: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (incident / "prepared" / folder / RESPONSES).read_bytes().splitlines()]


def test_it_goes_on_past_the_budget_to_its_cap_and_then_to_the_next_dataset(incident: Path, engine_url: str) -> None:
    before = (incident / "prepared" / B2 / RESPONSES).read_bytes()
    with _start(incident, engine_url) as script:
        assert f"{B2}: 29 answers, 41 to go" in _line(script)
        assert f"{B3}: 2 answers, 58 to go" in _line(script)
        while not _line(script).startswith("all datasets done"):
            pass
    assert (incident / "prepared" / B2 / RESPONSES).read_bytes().startswith(before)
    facts = read_model(fast_model().path)
    for folder, count in ((B2, 70), (B3, 60), ("B8_sweagent", MAX_SAMPLES)):
        records = _records(incident, folder)
        assert len({record["sample_id"] for record in records}) == len(records) == count
        for record in records:
            verdict = check(json.dumps(record).encode(), Rules(facts.vocab_size, facts.eos_ids))
            assert (verdict.kind, verdict.no_eos) == ("valid", False)
    # B1 was finished before there was a cap: it does not look at it.
    assert len(_records(incident, "B1_glaive")) == 100


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_keeps_its_file_open_and_ends_when_told(number: signal.Signals, incident: Path) -> None:
    """An engine that never answers: the script waits for it with B2's file open, and a signal ends it at once."""
    with _start(incident, "http://127.0.0.1:9") as script:
        _line(script)
        path = str(incident / "prepared" / B2 / RESPONSES)
        deadline = time.monotonic() + LIMIT_S
        while path not in (str(link.resolve()) for link in Path(f"/proc/{script.pid}/fd").iterdir()):
            assert time.monotonic() < deadline, "B2's file is not held open"
            time.sleep(0.01)
        script.send_signal(number)
        assert script.wait(LIMIT_S) != 0
    assert len(_records(incident, B2)) == 29


def test_it_knows_no_token_budget(incident: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(incident / "work" / "run_inference.py"), "--root", "x", "--token-budget", "10M"],
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "token-budget" not in Path(older_script.__file__).read_text(encoding="utf-8")
