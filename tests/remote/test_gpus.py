"""GPUs by whatever nvidia-smi does: unknown with its reason, never 0, never waited for."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from remote import gpus, host
from remote.identity import identify, send, wait_gone
from tests.support.runs import REPO, until

DEMO = REPO / "console" / "demo" / "nvidia_smi.py"


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state file that says what the nvidia-smi first on PATH does."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "nvidia-smi"
    program.write_text(f'#!/bin/sh\necho $$ >> {tmp_path}/pids\nexec {sys.executable} {DEMO} "$@"\n')
    program.chmod(0o755)
    state = tmp_path / "gpus.json"
    state.write_text('{"load": 1.0}')
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("EAGLE3_DEMO_GPUS", str(state))
    return state


def test_eight_gpus_at_work(smi: Path) -> None:
    found = host.gpus()
    assert found["detail"] == "" and [row["index"] for row in found["rows"]] == list(range(8))
    for row in found["rows"]:
        assert "RTX PRO 6000" in row["name"] and row["utilisation"] > 50
        assert 0 < row["memory_used_bytes"] < row["memory_total_bytes"] == 97887 * 1024 * 1024
        assert row["temperature_c"] > 30 and row["power_w"] > 300
    assert gpus.helper_pids() == frozenset()


@pytest.mark.parametrize(
    ("say", "exit_code", "expected", "detail"),
    [
        (
            "0, A, [N/A], 10, 20, [Not Supported], [Insufficient Permissions]",
            0,
            [None, 10 << 20, 20 << 20, None, None],
            "MIG",
        ),
        ("0, A, [Unknown Error], [N/A], [N/A], ERR!, N/A", 0, [None] * 5, "MIG"),
        ("0, A, 0, 0, 20, 0, 0.00", 0, [0.0, 0, 20 << 20, 0.0, 0.0], ""),
        ("0, A, B and C, 7, 1, 2, 3, 4.5", 0, [7.0, 1 << 20, 2 << 20, 3.0, 4.5], ""),
        ("0, A, -3, nan, inf, 1e99, 5", 0, [None, None, None, None, 5.0], "MIG"),
    ],
)
def test_what_it_does_not_report_is_unknown(
    smi: Path, say: str, exit_code: int, expected: list[float | None], detail: str
) -> None:
    smi.write_text(json.dumps({"say": say, "exit": exit_code}))
    found = host.gpus()
    assert detail in found["detail"] and bool(found["detail"]) == bool(detail)
    assert [list(row.values())[2:] for row in found["rows"]] == [expected]


@pytest.mark.parametrize(
    ("state", "detail"),
    [
        ({"say": "Failed to initialize NVML: Driver/library version mismatch", "exit": 18}, "version mismatch"),
        (
            {"say": "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "exit": 9},
            "has failed",
        ),
        ({"say": "No devices were found", "exit": 0}, "No devices were found"),
        ({"say": "", "exit": 0}, "reports no GPU"),
        ({"say": "", "exit": 3}, "exit code 3"),
        ({"say": "\x1b[31m[/foo]\x07 0, 1", "exit": 0}, "[/foo]"),
        ({"gpus": 0}, "reports no GPU"),
    ],
)
def test_no_rows_have_their_reason(smi: Path, state: dict[str, object], detail: str) -> None:
    smi.write_text(json.dumps(state))
    found = host.gpus()
    assert found["rows"] == [] and detail in found["detail"] and "\x1b" not in found["detail"]


def test_a_warning_beside_the_rows_is_passed_on(smi: Path) -> None:
    smi.write_text(json.dumps({"say": "WARNING: infoROM is corrupted at gpu 0000:01:00.0\n0, A, 1, 2, 3, 4, 5"}))
    found = host.gpus()
    assert len(found["rows"]) == 1 and "infoROM" in found["detail"]


def test_a_hanging_one_is_given_up_and_killed(smi: Path, tmp_path: Path) -> None:
    smi.write_text('{"hang_s": 600}')
    found = gpus.gpus(limit_s=0.5)
    assert found["rows"] == [] and "did not answer within" in found["detail"]
    pid = int((tmp_path / "pids").read_text())
    until(lambda: identify(pid) is None)
    smi.write_text('{"load": 0}')
    assert len(gpus.gpus()["rows"]) == 8, "the next one is asked again"


def test_one_that_cannot_be_killed_is_followed_by_no_other(
    smi: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the kernel (state D) no signal reaches it: a kill that does nothing stands in for that."""
    smi.write_text('{"hang_s": 600}')
    real = gpus.subprocess.Popen

    class Unkillable(real):  # type: ignore[valid-type, misc]
        def kill(self) -> None:
            return

    monkeypatch.setattr(gpus.subprocess, "Popen", Unkillable)
    assert "did not answer" in gpus.gpus(limit_s=0.3)["detail"]
    assert len(gpus.helper_pids()) == 1
    for _ in range(3):
        assert "has hung for" in gpus.gpus(limit_s=0.3)["detail"]
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) == 1, "never two at once"
    stuck = identify(int(pids[0]))
    assert stuck is not None
    send(stuck, signal.SIGKILL)
    assert wait_gone([stuck], 30) == []
    smi.write_text('{"load": 0}')
    assert len(gpus.gpus()["rows"]) == 8


def test_two_askers_share_one(smi: Path, tmp_path: Path) -> None:
    smi.write_text('{"hang_s": 1}')
    answers: list[dict[str, Any]] = []
    first = threading.Thread(target=lambda: answers.append(gpus.gpus()))
    first.start()
    until(lambda: (tmp_path / "pids").exists())
    assert "already" in gpus.gpus()["detail"]
    first.join()
    assert len(answers[0]["rows"]) == 8 and len((tmp_path / "pids").read_text().split()) == 1


def test_without_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert host.gpus() == {"rows": [], "detail": "nvidia-smi is not installed here"}
    (tmp_path / "nvidia-smi").write_text("not a program")
    assert "nvidia-smi" in host.gpus()["detail"]


def test_disk_and_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = host.disk(tmp_path)
    assert 0 < found["free_bytes"] <= found["total_bytes"]
    gone = host.disk(tmp_path / "gone")
    assert gone["free_bytes"] is None and gone["total_bytes"] is None and "gone" in gone["detail"]
    machine = host.machine()
    assert machine["cpus"] >= 1 and 0 < machine["memory_available_bytes"] <= machine["memory_total_bytes"]
    monkeypatch.setattr(host.procfs, "PROC", tmp_path)
    monkeypatch.setattr(host, "CGROUP", tmp_path)
    blind = host.machine()
    assert (blind["boot_id"], blind["memory_total_bytes"], blind["memory_available_bytes"]) == (None, None, None)
    assert host.oom_kills() is None


@pytest.mark.parametrize(
    ("cgroup", "path", "text", "kills"),
    [
        ("0::/\n", "memory.events", "low 0\nhigh 0\nmax 3\noom 2\noom_kill 5\n", 5),
        ("0::/box\n", "box/memory.events", "oom_kill 1\n", 1),
        ("0::/not/seen/from/here\n", "memory.events", "oom_kill 2\n", 2),
        ("4:memory:/box\n", "memory/box/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n", 7),
        ("4:memory:/elsewhere\n0::/\n", "memory/memory.oom_control", "oom_kill 3\n", 3),
        ("0::/\n", "memory.events", "oom_kill many\n", None),
        ("junk\n", "other", "", None),
    ],
)
def test_the_kernels_count_is_found_in_either_kind_of_cgroup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cgroup: str, path: str, text: str, kills: int | None
) -> None:
    tree, proc = tmp_path / "cgroup", tmp_path / "proc"
    (tree / path).parent.mkdir(parents=True)
    (tree / path).write_text(text)
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text(cgroup)
    monkeypatch.setattr(host, "CGROUP", tree)
    monkeypatch.setattr(host, "procfs", SimpleNamespace(PROC=proc))
    assert host.oom_kills() == kills
