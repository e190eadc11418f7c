"""`restart` and `kill` as an operator calls them, on a real tree and real processes: what they refuse, and how they fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from remote.layout import Layout
from tests.support.cli import Ran, console, wait_until
from tests.support.runs import end_all, fake_python
from tests.support.tree import SMALL_BUDGET, make_tree

ACCEPTED = ("python", "imports", "tokenizer", "model", "engine", "disk")
"""The stand-in generator is no Python with libraries, and there is no engine."""


class Place:
    """A root of this machine, and the console's words for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir()
        self.root = folder / "prepared"
        self.root.mkdir()
        make_tree(self.root, "mid")
        self.layout = Layout(self.root)
        self.python = fake_python(folder, "reports")

    def run(self, command: str, *more: str) -> Ran:
        words = ["local", "--root", str(self.root), "--token-budget", str(SMALL_BUDGET), "--python", str(self.python)]
        words += ["--engine-url", "http://127.0.0.1:9"]
        for code in ACCEPTED:
            words += ["--accept", code]
        return console(command, *words, *more, home=self.home)

    def generator(self) -> dict[str, object]:
        generator: dict[str, object] = self.run("status", "--json").json()["generator"]
        return generator

    def audit(self) -> list[dict[str, object]]:
        entries: list[dict[str, object]] = self.run("audit", "--json").json()
        return entries


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    end_all(made.layout)


@contextmanager
def writer(place: Place, code: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """A process that was not launched by us and holds B4's answers open; `code` runs after it has opened them."""
    script = place.folder / "run_inference.py"
    target = place.root / "B4_mixturethoughts" / "raw_responses.jsonl"
    script.write_text(
        f"import os, signal, subprocess, sys, time\nf = open({str(target)!r}, 'a')\n{code}\n"
        "print('open', flush=True)\nwhile True: time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, str(script), "--max-samples", "7000"], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


def test_launch_status_kill_and_nothing_is_left(place: Place) -> None:
    started = place.run("restart", "--yes")
    assert started.code == 0, started.err
    generator = place.generator()
    assert generator["verdict"] == "running"
    again = place.run("restart", "--yes")
    assert again.code == 0
    assert "nothing would change" in again.err
    assert place.generator()["pid"] == generator["pid"]
    killed = place.run("kill", "--now", "--yes")
    assert killed.code == 0, killed.err
    assert "is gone" in killed.out
    assert "by drain" not in killed.err, "what is printed before is what is done"
    assert place.generator()["verdict"] == "exited"
    nothing = place.run("kill", "--yes")
    assert nothing.code == 1
    assert "no generator of ours runs" in nothing.err
    actions = [entry["action"] for entry in place.audit()]
    assert {"restart", "launch", "stop-now"} <= set(actions)


def test_what_cannot_be_audited_is_done_and_said(place: Place) -> None:
    place.layout.audit_jsonl.mkdir(parents=True)
    started = place.run("restart", "--yes")
    assert started.code == 0, started.err
    assert "the audit does not say so" in started.out + started.err
    assert place.generator()["verdict"] == "running"
    killed = place.run("kill", "--now", "--yes")
    assert killed.code == 0, killed.err
    assert "the audit does not say so" in killed.out + killed.err


def test_nobody_is_asked_in_a_pipe(place: Place) -> None:
    refused = place.run("restart")
    assert refused.code == (0 if "nothing to do" in refused.err else 2), refused.err
    assert not place.layout.run_json.exists()


def test_read_only_changes_nothing(place: Place) -> None:
    for command in ("restart", "kill"):
        refused = place.run(command, "--yes", "--read-only")
        assert refused.code == 1
        assert "read-only" in refused.err
    assert not place.layout.state.exists()


def test_a_blocker_stops_it_before_anybody_is_killed(place: Place) -> None:
    with writer(place) as stranger:
        hold = {
            "by": {"user": "ann", "host": "laptop"},
            "reason": "extraction reading",
            "at": time.time(),
            "until": None,
        }
        place.layout.make_state()
        place.layout.hold_json.write_text(json.dumps(hold))
        refused = place.run("restart", "--yes", "--kill-pid", str(stranger.pid))
        assert refused.code == 1
        assert "extraction reading" in refused.err
        assert "--accept hold" in refused.err
        assert stranger.poll() is None
    assert not place.layout.run_json.exists()


def test_a_stranger_that_is_started_again_by_its_parent_is_named(place: Place) -> None:
    script = place.folder / "loop.sh"
    target = place.root / "B4_mixturethoughts" / "raw_responses.jsonl"
    (place.folder / "run_inference.py").write_text(
        f"import time\nf = open({str(target)!r}, 'a')\nprint('open', flush=True)\nwhile True: time.sleep(60)\n"
    )
    script.write_text(f'while true; do "{sys.executable}" "{place.folder}/run_inference.py" --max-samples 7000; done\n')
    parent = subprocess.Popen(["/bin/sh", str(script)], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert parent.stdout is not None
        parent.stdout.readline()
        (seen,) = place.run("status", "--json").json()["writers"]
        refused = place.run("restart", "--yes", "--kill-pid", str(seen["pid"]))
        assert refused.code == 1, refused.err
        assert "started it again" in refused.err
        assert f"may start it again: end that first, on the container: kill {parent.pid}" in refused.err
        assert f"end its parent first, on the container: kill {parent.pid}" in refused.err
        assert "nothing was killed" not in refused.err
        assert "KILLED BUT NOT STARTED" not in refused.out
        assert not place.layout.run_json.exists()
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.communicate()


def test_killed_but_not_started_is_shouted(place: Place) -> None:
    # When it is told to go it takes the lock first, as a faster operator would; what it starts outlives it.
    lock = place.layout.run_lock
    thief = (
        "def gone(*_):\n"
        "    os.makedirs(os.path.dirname(LOCK), exist_ok=True)\n"
        "    code = 'import fcntl,sys,time; f=open(sys.argv[1],\"a\"); fcntl.flock(f,fcntl.LOCK_EX); print(1,flush=True); time.sleep(600)'\n"
        "    p = subprocess.Popen([sys.executable, '-c', code, LOCK], stdout=subprocess.PIPE, start_new_session=True)\n"
        "    p.stdout.readline()\n"
        "    open(PIDFILE, 'w').write(str(p.pid))\n"
        "    os._exit(0)\n"
        "signal.signal(signal.SIGINT, gone)"
    ).replace("LOCK", repr(str(lock)), 1)
    pid_file = place.folder / "thief.pid"
    code = f"LOCK = {str(lock)!r}\nPIDFILE = {str(pid_file)!r}\n{thief}"
    with writer(place, code) as stranger:
        failed = place.run("restart", "--yes", "--kill-pid", str(stranger.pid))
    wait_until(pid_file.exists, 10, "the thief has the lock")
    try:
        assert failed.code == 1
        assert "KILLED BUT NOT STARTED" in failed.err
        assert f"killed pid {stranger.pid}" in failed.err
        assert not place.layout.run_json.exists()
    finally:
        os.kill(int(pid_file.read_text()), signal.SIGKILL)


def test_a_kept_plan_is_refused_when_the_state_drifted(place: Place) -> None:
    plan = place.folder / "plan.json"
    assert place.run("trace", "--out", str(plan)).code == 0
    kept = json.loads(plan.read_bytes())
    assert {row["name"] for row in kept["datasets"]} >= {"B1_glaive", "B8_sweagent"}
    (place.root / "B5_openthoughts" / "prompts.jsonl").unlink()
    refused = place.run("restart", "--yes", "--plan", str(plan))
    assert refused.code == 1
    assert "B5" in refused.err
    assert not place.layout.run_json.exists()
    missing = place.run("restart", "--yes", "--plan", str(place.folder / "none.json"))
    assert missing.code == 2
    assert "--out FILE" in missing.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--token-budget", "lots"), 2, "--token-budget"),
        (("--root", "/nowhere/at/all"), 1, "/nowhere/at/all"),
        (("--concurrency", "0"), 2, "--concurrency"),
    ],
)
def test_bad_input_is_one_clear_line(place: Place, words: tuple[str, ...], code: int, said: str) -> None:
    ran = place.run("status", *words)
    assert ran.code == code
    assert said in ran.err
    assert len(ran.err.strip().splitlines()) == 1
    assert "Traceback" not in ran.err
