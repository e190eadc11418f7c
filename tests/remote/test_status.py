"""The verdict is what is true: by identity, by the exit record, by the lock, never by a bare pid."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from remote import host, procfs
from remote.identity import alive, myself, send, wait_gone
from remote.layout import Layout, write_whole
from remote.lock import RunLock, is_held
from remote.obituary import Death, exit_record
from remote.runfile import read_run, write_run
from remote.status import generator_status, lock_json
from tests.support.needs import needs, needs_root
from tests.support.runs import (
    BY,
    LIMIT_S,
    REPO,
    generator_of,
    kill_and_wait,
    launch_fake,
    supervisor_of,
    until,
)


def test_never_started_and_nothing_made(layout: Layout) -> None:
    status = generator_status(layout)
    assert (status.verdict, status.pid, status.exit, status.in_flight) == ("never-started", None, None, None)
    assert lock_json(layout, status) == {"held": False, "holder": None}
    assert not layout.state.exists()


def test_a_run_that_did_its_work(layout: Layout) -> None:
    launch_fake(layout, "ends")
    until(lambda: generator_status(layout).verdict == "exited" and not is_held(layout))
    status = generator_status(layout)
    assert status.exit is not None and (status.exit["code"], status.exit["reason"]) == (0, "finished")
    assert status.pid is None and status.in_flight is None and not status.living


def test_what_the_running_one_says_of_itself(layout: Layout) -> None:
    launched = launch_fake(layout)
    write_whole(layout.progress_json, b'{"run": "%s", "in_flight": 64}' % launched.run_id.encode())
    write_whole(
        layout.control_json, b'{"run": "%s", "token_budget": {"default": 5, "per": {}}}' % launched.run_id.encode()
    )
    status = generator_status(layout)
    assert (status.verdict, status.in_flight, status.token_budget) == ("running", 64, "5")
    assert lock_json(layout, status)["held"] is True
    write_whole(layout.progress_json, b'{"run": "an-earlier-one", "in_flight": 64}')
    write_whole(layout.control_json, b'{"run": "an-earlier-one", "token_budget": {"default": 5, "per": {}}}')
    status = generator_status(layout)
    assert (status.in_flight, status.token_budget) == (None, "10M")


def test_the_supervisor_killed(layout: Layout) -> None:
    launched = launch_fake(layout)
    kill_and_wait(supervisor_of(layout))
    status = generator_status(layout)
    assert (status.verdict, status.pid, status.supervisor_pid) == ("running-unsupervised", launched.pid, None)
    assert alive(launched.identity) and is_held(layout)


def test_both_killed_is_lost_and_the_next_start_is_free(layout: Layout) -> None:
    launch_fake(layout)
    kill_and_wait(supervisor_of(layout))
    kill_and_wait(generator_of(layout))
    status = generator_status(layout)
    assert status.verdict == "lost" and "without an exit record" in status.detail
    assert generator_status(layout).run_id != launch_fake(layout).run_id


def test_the_generator_killed_has_a_cause_that_is_not_guessed(layout: Layout) -> None:
    launched = launch_fake(layout)
    assert launched.identity is not None
    send(launched.identity, signal.SIGKILL)
    until(lambda: generator_status(layout).verdict == "exited" and not is_held(layout))
    ended = generator_status(layout).exit
    assert ended is not None and (ended["signal"], ended["reason"]) == (9, "killed")
    assert ended["detail"] == "killed by SIGKILL; cause unknown" and ended["oom"] in (False, None)


def test_a_crash_is_told_by_its_signal(layout: Layout) -> None:
    launched = launch_fake(layout)
    assert launched.identity is not None
    send(launched.identity, signal.SIGSEGV)
    until(lambda: generator_status(layout).exit)
    ended = generator_status(layout).exit
    assert ended is not None and (ended["signal"], ended["detail"]) == (11, "ended by SIGSEGV")


@pytest.mark.parametrize("field", ["boot_id", "pid_ns"])
def test_another_boot_or_namespace_is_a_restarted_container(layout: Layout, field: str) -> None:
    """Every pid and tick fits, and it is still not the same process."""
    launch_fake(layout)
    run = read_run(layout)
    assert run is not None and run.generator is not None and run.supervisor is not None
    kill_and_wait(run.supervisor)
    kill_and_wait(run.generator)
    before = {field: "of-before"}
    me = myself()
    write_run(layout, replace(run, generator=replace(me, **before), supervisor=replace(me, **before)))  # type: ignore[arg-type]
    status = generator_status(layout)
    assert status.verdict == "lost" and "container was restarted" in status.detail


def test_a_generator_by_hand_is_seen_with_its_holder(layout: Layout) -> None:
    with RunLock.take(layout, "generate", "carl@tmux"):
        status = generator_status(layout)
        assert (status.verdict, status.pid, status.by) == ("running-unsupervised", os.getpid(), "carl@tmux")
    with RunLock.take(layout, "retokenize", "carl@tmux"):
        status = generator_status(layout)
        assert status.verdict == "held-by-stray" and f"pid {os.getpid()} (retokenize)" in status.detail
        held = lock_json(layout, status)
        assert held["held"] is True and held["holder"]["purpose"] == "retokenize"
    assert generator_status(layout).verdict == "never-started"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff\xfe", b'{"run": 3}', b"[" * 100_000])
@pytest.mark.parametrize("name", ["run.json", "exit.json", "stop.json", "progress.json", "control.json"])
def test_a_damaged_file_is_said_and_blanks_nothing_else(layout: Layout, name: str, content: bytes) -> None:
    layout.make_state()
    run = {"run": "r", "argv": ["x"], "options": {}}
    layout.run_json.write_text(json.dumps(run))
    (layout.state / name).write_bytes(content)
    status = generator_status(layout)
    another_runs = content in (b"{}", b'{"run": 3}')
    unknown = name == "run.json" or (name == "exit.json" and not another_runs)
    assert status.verdict == ("unknown" if unknown else "lost")
    assert not unknown or name in status.detail
    json.dumps(status.to_json())


def test_without_proc_nothing_is_claimed(layout: Layout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    launch_fake(layout)
    monkeypatch.setattr(procfs, "PROC", tmp_path)
    status = generator_status(layout)
    assert status.verdict == "unknown" and "/proc" in status.detail
    monkeypatch.undo()


OOM = """
import os, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from remote.layout import Layout
from tests.support.runs import launch_fake
folder = sys.argv[3]
Path(folder, "cgroup.procs").write_text(str(os.getpid()))
launched = launch_fake(Layout(Path(sys.argv[2])), "eats")
print(launched.pid, flush=True)
"""


def test_out_of_memory_is_told_from_a_kill_by_the_cgroups_own_count(layout: Layout) -> None:
    needs_root("a memory cgroup of its own")
    base = next(
        (base for base in (host.CGROUP / "memory", host.CGROUP) if (base / "memory.limit_in_bytes").exists()), None
    )
    if base is None:
        pytest.skip("needs a memory cgroup (v1) that can be written")
    folder = base / f"eagle3-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"needs a memory cgroup that can be written: {error.strerror}")
    try:
        (folder / "memory.limit_in_bytes").write_text("100000000")
        done = subprocess.run(
            [sys.executable, "-c", OOM, str(REPO), str(layout.root), str(folder)],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        until(lambda: generator_status(layout).exit)
        ended = generator_status(layout).exit
        assert ended is not None and (ended["signal"], ended["oom"], ended["reason"]) == (9, True, "out-of-memory")
        assert "ran out of memory" in ended["detail"]
        assert wait_gone([supervisor_of(layout)], LIMIT_S) == []
    finally:
        until(lambda: not (folder / "cgroup.procs").read_text().strip())
        folder.rmdir()


def test_a_count_that_rose_for_a_kill_of_ours_proves_nothing(layout: Layout) -> None:
    launch_fake(layout)
    run = read_run(layout)
    assert run is not None
    killed = exit_record(run, Death(None, 9), 0.0, asked={"mode": "force", "by": BY}, killed_by_us=True, oom=False)
    assert (killed["reason"], killed["oom"]) == ("stopped", False)
    assert exit_record(run, Death(None, 9), 0.0, oom=None)["detail"] == "killed by SIGKILL; cause unknown"
    assert exit_record(run, Death(137, None), 0.0, oom=None)["detail"] == "it failed with exit code 137"


NAMESPACE = """
import os, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from remote.layout import Layout
from remote.status import generator_status
from tests.support.runs import launch_fake, generator_of, kill_and_wait, supervisor_of
layout = Layout(Path(sys.argv[2]))
assert os.getpid() == 1
launched = launch_fake(layout)
assert generator_status(layout).verdict == "running", generator_status(layout)
from remote import procfs
# PID 1 here reaps nothing: the killed supervisor stays a zombie, and is dead all the same.
kill_and_wait(supervisor_of(layout))
assert procfs.read_stat(launched.supervisor_pid).state == "Z"
assert generator_status(layout).verdict == "running-unsupervised", generator_status(layout)
kill_and_wait(generator_of(layout))
assert procfs.read_stat(launched.pid).state == "Z", procfs.read_stat(launched.pid)
assert generator_status(layout).verdict == "lost", generator_status(layout)
print(launch_fake(layout).pid)
"""


def test_under_a_pid_1_that_does_not_reap_and_after_its_end(layout: Layout) -> None:
    needs("unshare")
    needs_root("a pid namespace of its own")
    argv = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", NAMESPACE, str(REPO), str(layout.root)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    # The namespace is gone, and all that ran in it: what it left says so, from the outside.
    status = generator_status(layout)
    assert status.verdict == "lost" and "container was restarted" in status.detail
    assert launch_fake(layout).pid > 0
