"""A stop reaches the end by itself, hits nobody else, and says what is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from remote import procfs
from remote.errors import OperatorError
from remote.identity import alive, identify, send, wait_gone
from remote.layout import Layout
from remote.lock import is_held
from remote.members import find_members
from remote.runfile import read_exit, read_stop, write_stop
from remote.status import generator_status
from remote.stop import stop_run
from tests.support.runs import (
    BY,
    FAKE,
    LIMIT_S,
    REPO,
    generator_of,
    kill_and_wait,
    launch_fake,
    process,
    supervisor_of,
    until,
)


@pytest.mark.parametrize("mode", ["drain", "now", "force"])
def test_success_is_that_nothing_is_left(layout: Layout, mode: str) -> None:
    launched = launch_fake(layout, "child")
    members = find_members(launched.run_id, launched.identity)
    assert len(members) == 2, "the generator, and a grandchild in a session of its own that ignores TERM"
    stopped = stop_run(layout, mode, 5, launched.identity, "bob@desk", patience_s=0.5)
    assert stopped.done and stopped.how == "supervisor"
    assert [one for one in members if alive(one)] == [] and not is_held(layout)
    status = generator_status(layout)
    assert status.verdict == "exited" and status.exit is not None
    assert (status.exit["reason"], status.exit["mode"], status.exit["by"]) == ("stopped", mode, "bob@desk")
    if mode == "force":
        assert status.exit["signal"] == signal.SIGKILL and status.exit["oom"] is False
    else:
        assert status.exit["code"] == 3 and f"stopping: {mode}" in layout.run_log.read_text()


def test_a_deaf_generator_is_killed_in_the_end(layout: Layout) -> None:
    launched = launch_fake(layout, "deaf")
    stopped = stop_run(layout, "drain", 0.2, launched.identity, BY, patience_s=0.2)
    assert stopped.done and stopped.exit is not None
    assert (
        stopped.exit["signal"] == signal.SIGKILL and "killed on request (drain by ann@laptop)" in stopped.exit["detail"]
    )
    sent = [line.split("sent ")[1].split()[0] for line in layout.run_log.read_text().splitlines() if "sent SIG" in line]
    assert sent == ["SIGTERM", "SIGTERM", "SIGTERM", "SIGKILL"]


def test_a_drain_that_takes_too_long_for_somebody_is_overtaken(layout: Layout) -> None:
    launched = launch_fake(layout, "slow=600")
    answers = []
    waiting = threading.Thread(
        target=lambda: answers.append(stop_run(layout, "drain", 600, launched.identity, "ann@laptop"))
    )
    waiting.start()
    until(lambda: "stopping: drain" in layout.run_log.read_text())
    forced = stop_run(layout, "force", 0, launched.identity, "bob@desk")
    waiting.join(LIMIT_S)
    assert forced.done and [one.done for one in answers] == [True], "both learn the truth"
    assert forced.how == "supervisor", "at once, and not by a helper after the supervisor's time was up"
    assert forced.exit is not None and (forced.exit["mode"], forced.exit["by"]) == ("force", "bob@desk")


def test_it_completes_though_the_operator_is_gone(layout: Layout) -> None:
    """The link drops right after the request: all that was done by then is the file and the signal."""
    launched = launch_fake(layout, "slow=0.5")
    assert launched.identity is not None
    write_stop(layout, launched.run_id, "drain", 30, BY)
    send(supervisor_of(layout), signal.SIGTERM)
    assert wait_gone([launched.identity, supervisor_of(layout)], LIMIT_S) == []
    ended = read_exit(layout, launched.run_id)
    assert ended is not None and (ended["code"], ended["reason"], ended["by"]) == (3, "stopped", BY)


def test_it_is_carried_out_though_whoever_asked_died_before_the_signal(layout: Layout) -> None:
    launched = launch_fake(layout)
    write_stop(layout, "another-run", "now", 0.0, BY)
    write_stop(layout, launched.run_id, "now", 0.0, "ann@desk")
    until(lambda: not alive(launched.identity))
    until(lambda: (ended := read_exit(layout, launched.run_id)) is not None and ended["by"] == "ann@desk")


def test_another_generator_than_the_one_that_was_seen_is_left_alone(layout: Layout) -> None:
    seen = launch_fake(layout, by="ann@laptop")
    stop_run(layout, "force", 0, seen.identity, "bob@desk")
    now = launch_fake(layout, by="bob@desk")
    with pytest.raises(OperatorError) as refused:
        stop_run(layout, "drain", 5, seen.identity, "ann@laptop")
    assert refused.value.code == "changed-hands"
    assert "bob@desk" in refused.value.message and "nothing was signalled" in refused.value.message
    assert alive(now.identity) and read_stop(layout, now.run_id) is None


def test_without_a_supervisor_it_is_done_all_the_same(layout: Layout) -> None:
    launched = launch_fake(layout, "child")
    kill_and_wait(supervisor_of(layout))
    assert generator_status(layout).verdict == "running-unsupervised"
    with pytest.raises(OperatorError, match="already has a writer"):
        launch_fake(layout)
    stopped = stop_run(layout, "now", 0, launched.identity, BY, patience_s=0.5)
    assert stopped.done and stopped.how == "ladder" and not is_held(layout)
    status = generator_status(layout)
    assert status.verdict == "exited" and status.exit is not None and status.exit["reason"] == "stopped"
    assert find_members(launched.run_id, launched.identity) == []


def test_a_supervisor_killed_in_the_middle_of_a_stop_is_stood_in_for(layout: Layout) -> None:
    launched = launch_fake(layout, "deaf")
    answers = []
    waiting = threading.Thread(
        target=lambda: answers.append(stop_run(layout, "drain", 600, launched.identity, BY, patience_s=0.3))
    )
    waiting.start()
    until(lambda: "sent SIGTERM" in layout.run_log.read_text())
    kill_and_wait(supervisor_of(layout))
    waiting.join(LIMIT_S)
    assert [one.done for one in answers] == [True] and answers[0].how == "ladder"
    assert not alive(launched.identity) and not is_held(layout)


def test_a_full_disk_does_not_keep_it_from_being_forced(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    import remote.stop

    launched = launch_fake(layout)

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(remote.stop, "write_stop", full)
    stopped = stop_run(layout, "force", 0, launched.identity, BY)
    assert stopped.done and not alive(launched.identity)


def test_what_outlives_a_killed_group_is_found_and_ended(layout: Layout) -> None:
    launched = launch_fake(layout, "child")
    kill_and_wait(supervisor_of(layout))
    kill_and_wait(generator_of(layout))
    status = generator_status(layout)
    assert status.verdict == "held-by-stray", "the grandchild inherited the lock"
    left = find_members(launched.run_id, launched.identity)
    assert len(left) == 1 and f"pid {left[0].pid}" in status.detail
    with pytest.raises(OperatorError, match=f"pid {left[0].pid}"):
        launch_fake(layout)
    stopped = stop_run(layout, "drain", 0, launched.identity, BY, patience_s=0.5)
    assert stopped.done and not alive(left[0]) and not is_held(layout)
    assert generator_status(layout).verdict == "lost"


def test_one_that_cannot_be_killed_is_named(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """State D cannot be had at will: signals that reach nobody stand in for it."""
    from remote import stop_helper
    from remote.ladder import Ladder

    monkeypatch.setattr(stop_helper, "send", lambda identity, number: True)
    clock = iter(range(0, 10_000, 5))
    monkeypatch.setattr(stop_helper, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    monkeypatch.setattr(stop_helper, "wait_gone", lambda identities, timeout_s: list(identities))
    with process("sleep", "600") as child:
        me = identify(child.pid)
        assert me is not None
        signals, left = stop_helper._climb(Ladder("stray", 0.0), lambda: [me], me)
        assert signals == ["SIGINT", "SIGTERM", "SIGKILL"] and left == [me]
        from remote.members import describe

        assert str(describe(me)) == f"pid {child.pid} (sleep 600)"
        stuck = replace(describe(me), state="D")
        assert "cannot be killed (state D)" in str(stuck)


def test_an_innocent_with_the_same_command_line_and_folder_is_never_signalled(layout: Layout) -> None:
    launched = launch_fake(layout)
    argv = procfs.read_argv(launched.pid)
    environment = {**os.environ, "EAGLE3_READY_FD": "1", "EAGLE3_LOCK_FD": "1", "EAGLE3_RUN": "another-run"}
    with process(*argv, env=environment, ready=True) as innocent:
        assert procfs.read_argv(innocent.pid) == argv
        stopped = stop_run(layout, "force", 0, launched.identity, BY)
        assert stopped.done and innocent.poll() is None
        kept = identify(innocent.pid)
        assert alive(kept)


def test_nothing_to_stop_is_said(layout: Layout) -> None:
    with pytest.raises(OperatorError) as refused:
        stop_run(layout, "drain", 5, None, BY)
    assert refused.value.code == "not-running" and "never-started" in refused.value.message
    with pytest.raises(OperatorError, match="no way to stop"):
        stop_run(layout, "gently", 5, None, BY)
    assert not layout.state.exists()
    launched = launch_fake(layout, "ends")
    until(lambda: generator_status(layout).verdict == "exited")
    assert stop_run(layout, "drain", 5, launched.identity, BY).how == "nothing-ran"


def test_by_hand(layout: Layout) -> None:
    launched = launch_fake(layout)
    argv = [sys.executable, "-m", "remote", "stop", "--root", str(layout.root), "--drain-s", "5"]
    done = subprocess.run([*argv, "--now"], capture_output=True, text=True, cwd=REPO, timeout=60)
    assert done.returncode == 0 and "nothing is left" in done.stdout, done.stderr
    assert not alive(launched.identity)
    entry = json.loads(layout.audit_jsonl.read_text())
    assert (entry["action"], entry["outcome"]) == ("stop", "stopped") and entry["who"]["user"]
    again = subprocess.run(argv, capture_output=True, text=True, cwd=REPO, timeout=60)
    assert again.returncode == 1 and "nothing to stop: exited" in again.stderr


def test_a_generator_started_by_hand_is_stopped_without_its_shell(layout: Layout, tmp_path: Path) -> None:
    code = (
        "import sys, os; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path; from remote.layout import Layout; from remote.lock import RunLock\n"
        "lock = RunLock.take(Layout(Path(sys.argv[2])), 'generate', 'carl@tmux'); print('up', flush=True)\n"
        "import time; time.sleep(600)\n"
    )
    shell = f"trap '' TERM; {sys.executable} -c \"$CODE\" {REPO} {layout.root}; echo shell goes on; sleep 600"
    with process("/bin/sh", "-c", shell, ready=True, env={**os.environ, "CODE": code}) as terminal:
        status = generator_status(layout)
        assert (status.verdict, status.by) == ("running-unsupervised", "carl@tmux")
        stopped = stop_run(layout, "drain", 0.2, status.identity, BY, patience_s=0.5)
        assert stopped.done and not alive(status.identity) and not is_held(layout)
        assert terminal.stdout is not None and b"shell goes on" in terminal.stdout.readline()
        assert terminal.poll() is None, "the shell it was typed at shares its session and lives"
    assert FAKE.exists()
