"""A launch by hand, on the container: a hold or another writer stops it before anything is started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from remote import audit
from remote.layout import Layout
from tests.support.tree import SHAPES, make_tree

REPO = Path(__file__).resolve().parents[2]


def launch(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "remote", "launch", "--root", str(root), *arguments]
    return subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=60)


def test_a_hold_stops_a_launch_by_hand(tmp_path: Path) -> None:
    root = make_tree(tmp_path, "seed", SHAPES[3:4])
    audit.write_hold(Layout(root), "ann@laptop", "extraction reading, until 14:00")
    refused = launch(root)
    assert refused.returncode == 1
    assert (
        "ann@laptop" in refused.stderr and "extraction reading" in refused.stderr and "--accept hold" in refused.stderr
    )
    assert len(refused.stderr.splitlines()) == 1
    assert not Layout(root).run_json.exists()
    passed = launch(root, "--accept", "hold")
    assert "hold" not in passed.stderr, "what stops it now is the missing model, not the hold"
    assert passed.returncode != 0 and "model" in passed.stderr


def test_another_writer_stops_a_launch_by_hand(tmp_path: Path) -> None:
    root = make_tree(tmp_path, "seed", SHAPES[3:4])
    target = root / SHAPES[3].folder / "raw_responses.jsonl"
    code = f"import sys; f = open({str(target)!r}, 'a'); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stranger:
        assert stranger.stdout is not None
        stranger.stdout.readline()
        refused = launch(root)
        assert stranger.poll() is None, "nobody was killed"
        stranger.kill()
    assert refused.returncode == 1
    assert f"kill {stranger.pid}" in refused.stderr
    assert not Layout(root).run_json.exists()
