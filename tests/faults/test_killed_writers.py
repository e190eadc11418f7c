"""F1: a writer is killed at any moment, again and again. By sample id nothing is lost and nothing doubled."""

from __future__ import annotations

import random
import selectors
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.disks import DEADLINE_S, FOLDER, Written, assert_safe, child_command, child_environment, read_output


def _run_and_kill(root: Path, count: int, after_acks: int, extra_bytes: int) -> Written:
    """Start a child and kill it once it has acknowledged so many answers and said some bytes more."""
    child = subprocess.Popen(
        child_command(root, count), env=child_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None
    try:
        said = b""
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ)
            wanted = None
            while wanted is None or len(said) < wanted:
                assert selector.select(DEADLINE_S), "the child says nothing"
                piece = child.stdout.raw.read(64) if hasattr(child.stdout, "raw") else b""
                if not piece:
                    break
                said += piece
                if wanted is None and said.count(b"ack ") >= after_acks:
                    wanted = len(said) + extra_bytes
        child.send_signal(signal.SIGKILL)
        rest, errors = child.communicate(timeout=DEADLINE_S)
    finally:
        child.kill()
        child.wait(DEADLINE_S)
    whole = (said + rest).decode()
    # A last line cut by the kill is no acknowledgement.
    whole = whole[: whole.rfind("\n") + 1]
    return read_output(child.returncode, whole, errors.decode())


@pytest.mark.parametrize("kills", [5, pytest.param(200, marks=pytest.mark.soak)])
def test_killed_again_and_again(tmp_path: Path, kills: int) -> None:
    (tmp_path / FOLDER).mkdir()
    rng = random.Random(kills)
    count = 120 * kills
    acknowledged: list[str] = []
    cuts = 0
    killed = 0
    for _ in range(kills):
        written = _run_and_kill(tmp_path, count, rng.randrange(1, 60), rng.randrange(200))
        acknowledged += written.acknowledged
        killed += written.code == -9
        cuts += written.repairs.count("cut")
        assert_safe(tmp_path, acknowledged)
    assert killed == kills
    last = subprocess.run(
        child_command(tmp_path, count), env=child_environment(), capture_output=True, text=True, timeout=600, check=True
    )
    end = read_output(0, last.stdout, last.stderr)
    assert_safe(tmp_path, acknowledged + end.acknowledged)
    cuts += end.repairs.count("cut")
    lines = (tmp_path / FOLDER / "raw_responses.jsonl").read_bytes().splitlines()
    assert len(lines) == count, "unique ids == prompts"
    torn = tmp_path / ".eagle3" / "torn"
    assert len(list(torn.iterdir()) if torn.exists() else []) == cuts, "every torn tail is accounted for"
