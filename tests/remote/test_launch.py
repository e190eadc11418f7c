"""A launch says truthfully whether a generator runs, leaves nothing behind that holds a channel, and keeps secrets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from remote import procfs
from remote.errors import OperatorError
from remote.identity import alive, identify
from remote.launch import Launched, Order, launch
from remote.layout import Layout
from remote.lock import is_held
from remote.members import find_members
from remote.options import Budget, Options
from remote.runfile import read_run
from remote.status import generator_status
from tests.support.runs import (
    BY,
    LIMIT_S,
    REPO,
    fake_command,
    fake_python,
    generator_of,
    launch_fake,
    process,
    supervisor_of,
    until,
)
from tests.support.sink import sink


def test_a_launch_returns_when_the_generator_is_ready(layout: Layout) -> None:
    budget = Budget(500_000, {"B4": 7})
    launched = launch_fake(layout, token_budget=budget, max_samples=70)
    status = generator_status(layout)
    assert status.verdict == "running" and status.identity == launched.identity
    assert (status.pid, status.supervisor_pid) == (launched.pid, launched.supervisor_pid)
    assert (status.token_budget, status.by, status.run_id) == (str(budget), BY, launched.run_id)
    argv = procfs.read_argv(launched.pid)
    assert argv[2:] == [
        *["generate", "--run", launched.run_id, "--root", str(layout.root)],
        *["--token-budget", str(budget), "--max-samples", "70"],
    ]
    run = read_run(layout)
    assert run is not None and run.options.max_samples == 70 and run.ready_at is not None
    assert Launched.from_json(launched.to_json()) == launched


def test_the_generator_is_alone_in_its_session_and_holds_nothing_of_the_launcher(layout: Layout) -> None:
    launched = launch_fake(layout)
    for pid in (launched.pid, launched.supervisor_pid):
        stat = procfs.read_stat(pid)
        assert stat is not None
        targets = {int(fd): os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
        assert targets[0] == "/dev/null"
        assert targets[1] == targets[2] == str(layout.run_log)
        pipes = [target for target in targets.values() if target.startswith(("pipe:", "/dev/pts", "socket:"))]
        # The supervisor wakes itself through a pipe of its own, both ends; the generator has none at all.
        assert len(pipes) == (2 if pid == launched.supervisor_pid else 0), targets
        ignored = next(
            line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigIgn")
        )
        assert int(ignored.split()[1], 16) & (1 << (signal.SIGHUP - 1)), "a hang-up ends nothing"
        assert str(layout.run_lock) in targets.values()
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
    stat = procfs.read_stat(launched.pid)
    assert stat is not None and stat.session == launched.pid and stat.ppid == launched.supervisor_pid


def test_a_secret_is_in_the_environment_alone(layout: Layout) -> None:
    secret = "sk-this-must-not-be-seen"
    with sink(403) as server:
        options = Options(root=str(layout.root), notify=(f"{server.url}/services/{secret}",))
        launched = launch(layout, Order(options, fake_command(), BY, {"EAGLE3_API_KEY": secret}, LIMIT_S))
        assert server.wait(1)[0].path == f"/services/{secret}"
    assert secret in Path(f"/proc/{launched.pid}/environ").read_text()
    for pid in (launched.pid, launched.supervisor_pid):
        assert secret not in " ".join(procfs.read_argv(pid))
    until(lambda: "could not post started" in layout.run_log.read_text())
    assert "HTTP 403" in layout.run_log.read_text()
    written = [path for path in layout.state.rglob("*") if path.is_file()]
    assert layout.run_json in written
    assert [path for path in written if secret.encode() in path.read_bytes()] == []
    assert f"{server.url}/***" in layout.run_json.read_text()


def test_the_launchers_environment_is_passed_on_but_for_what_would_overrule_the_run(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EAGLE3_TOKEN_BUDGET", "5")
    monkeypatch.setenv("SSH_CLIENT", "10.0.0.1 1 22")
    monkeypatch.setenv("HF_HOME", "/data/hf")
    monkeypatch.setenv("EAGLE3_DEMO", "mark-of-somebody-else")
    launched = launch_fake(layout)
    for name, value in {"EAGLE3_TOKEN_BUDGET": "", "SSH_CLIENT": "", "HF_HOME": "/data/hf"}.items():
        assert procfs.read_variable(launched.pid, name) == value
    assert procfs.read_variable(launched.pid, "EAGLE3_DEMO") == "mark-of-somebody-else"
    assert procfs.read_mark(launched.pid) == launched.run_id


def test_what_the_generator_says_is_the_error(layout: Layout) -> None:
    with pytest.raises(OperatorError) as refused:
        launch_fake(layout, "refuse")
    assert refused.value.to_json() == {
        "code": "no-tokenizer",
        "message": "no tokenizer in /nowhere",
        "remedy": "check --model-path",
        "exit_code": 1,
    }
    until(lambda: not is_held(layout))
    status = generator_status(layout)
    assert status.verdict == "exited" and status.exit is not None
    assert status.exit["reason"] == "not-ready" and status.exit["error"]["code"] == "no-tokenizer"


def test_one_that_dies_before_it_is_ready_is_quoted(layout: Layout) -> None:
    with pytest.raises(OperatorError) as refused:
        launch_fake(layout, "crash")
    assert refused.value.code == "not-ready"
    assert "exit code 1" in refused.value.message and "no module named luck" in refused.value.message
    until(lambda: not is_held(layout))
    launch_fake(layout)


@pytest.mark.parametrize("python", ["/nowhere/python", "/etc/passwd", "/"])
def test_a_python_that_cannot_be_started_is_named(layout: Layout, python: str) -> None:
    with pytest.raises(OperatorError) as refused:
        launch(layout, Order(Options(root=str(layout.root)), (python, "-B", "x"), BY, {}, LIMIT_S))
    assert (
        refused.value.code == "cannot-start" and python in refused.value.message and "--python" in refused.value.remedy
    )
    until(lambda: not is_held(layout))
    assert generator_status(layout).exit["reason"] == "not-started"  # type: ignore[index]


def test_one_that_never_gets_ready_is_taken_back(layout: Layout) -> None:
    with pytest.raises(OperatorError) as refused:
        launch_fake(layout, "mute", handshake_s=1.0)
    assert refused.value.code == "launch-timeout" and "told to stop" in refused.value.message
    until(lambda: generator_status(layout).verdict == "exited" and not is_held(layout))
    assert find_members(generator_status(layout).run_id or "", None) == []


def test_the_second_of_two_learns_who_was_first(layout: Layout) -> None:
    first = launch_fake(layout, by="bob@desk")
    with pytest.raises(OperatorError) as refused:
        launch_fake(layout)
    assert refused.value.code == "lock-held" and "started by bob@desk" in refused.value.message
    assert generator_status(layout).run_id == first.run_id, "the first one's record is untouched"
    assert alive(first.identity)


def _race(layout: Layout) -> tuple[list[Launched], list[OperatorError]]:
    launched: list[Launched] = []
    errors: list[OperatorError] = []
    barrier = threading.Barrier(2)

    def one(by: str) -> None:
        barrier.wait()
        try:
            launched.append(launch_fake(layout, by=by))
        except OperatorError as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(by,)) for by in ("ann@laptop", "bob@desk")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return launched, errors


@pytest.mark.parametrize("count", [5, pytest.param(45, marks=pytest.mark.soak)])
def test_two_at_the_same_moment_are_one(tmp_path: Path, count: int) -> None:
    from tests.support.runs import end_all

    for number in range(count):
        root = tmp_path / str(number)
        root.mkdir()
        layout = Layout(root)
        try:
            launched, errors = _race(layout)
            assert [error.code for error in errors] == ["lock-held"], [str(error) for error in errors]
            assert len(launched) == 1 and len(find_members(launched[0].run_id, launched[0].identity)) == 1
            status = generator_status(layout)
            assert status.identity == launched[0].identity and status.by in ("ann@laptop", "bob@desk")
        finally:
            end_all(layout)


def by_hand(layout: Layout, python: Path) -> list[str]:
    return [sys.executable, "-m", "remote", "launch", "--root", str(layout.root), "--python", str(python)]


def test_by_hand_it_works_the_same(layout: Layout, tmp_path: Path) -> None:
    argv = by_hand(layout, fake_python(tmp_path))
    done = subprocess.run([*argv, "--json"], capture_output=True, text=True, cwd=REPO, timeout=60)
    assert done.returncode == 0 and done.stderr == ""
    launched = Launched.from_json(json.loads(done.stdout))
    assert generator_of(layout) == launched.identity and supervisor_of(layout).pid == launched.supervisor_pid
    again = subprocess.run(argv, capture_output=True, text=True, cwd=REPO, timeout=60)
    assert again.returncode == 1 and again.stdout == ""
    assert "already has a writer" in again.stderr and again.stderr.count("\n") == 1


def test_a_launcher_that_is_killed_does_not_take_the_run_with_it(layout: Layout, tmp_path: Path) -> None:
    with process(*by_hand(layout, fake_python(tmp_path, "mute")), cwd=REPO) as child:
        until(lambda: layout.run_json.exists() and (run := read_run(layout)) is not None and run.generator is not None)
        child.kill()
        child.wait()
        assert generator_status(layout).verdict == "starting"
        assert alive(supervisor_of(layout)) and alive(generator_of(layout))


def test_no_root_and_read_only_change_nothing(layout: Layout) -> None:
    with pytest.raises(OperatorError) as refused:
        launch_fake(layout, read_only=True)
    assert refused.value.code == "read-only"
    nowhere = Layout(layout.root / "nowhere")
    with pytest.raises(OperatorError) as refused:
        launch_fake(nowhere)
    assert refused.value.code == "no-root"
    assert list(layout.root.iterdir()) == []


def test_the_launch_leaves_no_zombie_and_no_thread_with_the_agent(layout: Layout) -> None:
    before = threading.active_count()
    launched = launch_fake(layout)
    mine = [stat for stat in procfs.stats() if stat.ppid == os.getpid() and stat.dead]
    assert mine == [] and threading.active_count() == before
    assert identify(launched.supervisor_pid) is not None
    stat = procfs.read_stat(launched.supervisor_pid)
    assert stat is not None and stat.ppid != os.getpid(), "it belongs to nobody here"


def test_the_log_is_rotated_without_losing_a_line(layout: Layout) -> None:
    from remote import rotation

    layout.make_state()
    fd = rotation.open_log(layout)
    late = -1
    try:
        for number in range(600):
            os.write(fd, f"line {number}\n".encode())
            if rotation.rotate(layout, limit_bytes=800):
                # The writer notices a little later, as the generator does.
                late = number + 7
            if number == late:
                assert rotation.follow(layout, fd) is True
        assert rotation.follow(layout, fd) is False
        files = [layout.run_log, *(layout.run_log.with_name(f"run.log.{n}") for n in (1, 2, 3))]
        lines = [line for path in reversed(files) for line in path.read_text().splitlines()]
        assert lines == [f"line {number}" for number in range(600 - len(lines), 600)] and len(lines) > 200
        assert not layout.run_log.with_name("run.log.4").exists()
    finally:
        os.close(fd)
    with process("sleep", "600") as other:
        assert rotation.follow(layout, 0) is False, "a terminal or a pipe is left alone"
        assert other.poll() is None
