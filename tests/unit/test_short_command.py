"""What an operator reads of a command line names the script and keeps every flag."""

from __future__ import annotations

import pytest

from console.short_command import short_command


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["python", "run_inference.py", "--max-samples", "7000"], "run_inference.py --max-samples 7000"),
        (["/usr/bin/python3.11", "-u", "/srv/x/run.py", "-n", "3"], "run.py -n 3"),
        (["/bin/sh", "-c", "while true; do x; done"], "/bin/sh -c while true; do x; done"),
        (["python", "a.py", "--root", "/data/eagle3/synth_100k/prepared"], "a.py --root …/prepared"),
        (["python", "a.py", "--root=/data/eagle3/synth_100k/prepared"], "a.py --root=…/prepared"),
        (["python", "a.py", "\x1b[31mred"], "a.py �[31mred"),
        ([], ""),
        (["python"], "python"),
    ],
)
def test_short_command(argv: list[str], shown: str) -> None:
    assert short_command(argv) == shown
