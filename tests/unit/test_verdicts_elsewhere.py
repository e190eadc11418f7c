"""The same verdicts on other Pythons, and on this one with nothing installed: what a container may have."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from remote.records import Rules, judge_for
from tests.unit.test_record_rules import REPAIRABLE_LINES, UNUSABLE_LINES, _changed

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import json, sys
from remote.records import Rules, judge_for, plain_judge
rules = Rules(1000, frozenset({99}))
judge = judge_for(rules)
lines = [bytes.fromhex(text) for text in json.load(sys.stdin)]
json.dump(["msgspec" in sys.modules, [list(judge(line)[0]) for line in lines]], sys.stdout)
"""


def _pythons() -> list[str]:
    """This one without its packages, and whatever others of 3.10 and newer are installed."""
    homes = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/3.1[0-9].*/bin/python3"))
    named = [shutil.which(f"python3.{minor}") for minor in range(10, 16)]
    others = dict.fromkeys([*map(str, homes), *(name for name in named if name)])
    return [sys.executable, *(name for name in others if _works(name))]


def _works(python: str) -> bool:
    try:
        asked = subprocess.run(
            [python, "-c", "import sys; sys.exit(sys.version_info < (3, 10))"], timeout=30, check=False
        )
    except OSError:
        return False
    return asked.returncode == 0


@pytest.mark.parametrize("python", _pythons())
def test_same_verdicts(python: str) -> None:
    lines = [line for line, *_ in (*UNUSABLE_LINES, *REPAIRABLE_LINES)]
    lines += [_changed(), _changed(sample_id=7), _changed(output_ids=[1, 2, 3])]
    done = subprocess.run(
        [python, "-S", "-c", SCRIPT],
        input=json.dumps([line.hex() for line in lines]),
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    had_msgspec, verdicts = json.loads(done.stdout)
    assert not had_msgspec
    judge = judge_for(Rules(1000, frozenset({99})))
    assert verdicts == [list(judge(line)[0]) for line in lines]
