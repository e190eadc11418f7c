"""SIGKILL to supervisor, generator or launcher, each alone, at each stage: what the next look says, what the next start does."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote.errors import OperatorError
from remote.identity import Identity, alive, send
from remote.layout import Layout
from remote.lock import is_held
from remote.members import find_members
from remote.runfile import read_run
from remote.status import generator_status
from remote.stop import stop_run
from remote.stopped import Stopped
from tests.support.needs import needs_root
from tests.support.runs import BY, end_all, generator_of, kill_and_wait, launch_fake, supervisor_of, until


def victim_of(layout: Layout, who: str) -> Identity:
    return supervisor_of(layout) if who == "supervisor" else generator_of(layout)


def restart(layout: Layout, seen: Identity | None) -> None:
    """What a restart does with what it finds: stop it if it lives, then start."""
    if generator_status(layout).living or seen is not None:
        assert stop_run(layout, "now", 0, seen, BY, patience_s=0.5).done
    launch_fake(layout)
    status = generator_status(layout)
    assert status.verdict == "running" and len(find_members(status.run_id or "", status.identity)) == 1


@pytest.mark.parametrize("who", ["supervisor", "generator"])
def test_while_it_gets_ready(layout: Layout, who: str) -> None:
    errors: list[OperatorError] = []

    def launching() -> None:
        try:
            launch_fake(layout, "mute")
        except OperatorError as error:
            errors.append(error)

    thread = threading.Thread(target=launching)
    thread.start()
    until(lambda: layout.run_json.exists() and (run := read_run(layout)) is not None and run.generator is not None)
    assert generator_status(layout).verdict == "starting"
    kill_and_wait(victim_of(layout, who))
    thread.join(60)
    assert [error.code for error in errors] == ["launch-failed" if who == "supervisor" else "not-ready"]
    if who == "supervisor":
        status = generator_status(layout)
        assert status.verdict == "running-unsupervised", "it was started, nobody watches it, and that is said"
        restart(layout, status.identity)
    else:
        until(lambda: not is_held(layout))
        restart(layout, None)


@pytest.mark.parametrize("who", ["supervisor", "generator"])
def test_while_it_runs(layout: Layout, who: str) -> None:
    seen = launch_fake(layout).identity
    kill_and_wait(victim_of(layout, who))
    if who == "generator":
        until(lambda: generator_status(layout).exit)
        until(lambda: not is_held(layout))
        assert generator_status(layout).exit["reason"] == "killed"  # type: ignore[index]
    else:
        assert generator_status(layout).verdict == "running-unsupervised"
    restart(layout, seen)


@pytest.mark.parametrize("who", ["supervisor", "generator"])
def test_while_it_drains(layout: Layout, who: str) -> None:
    launched = launch_fake(layout, "slow=600")
    answers: list[Stopped] = []
    thread = threading.Thread(
        target=lambda: answers.append(stop_run(layout, "drain", 600, launched.identity, BY, patience_s=0.5))
    )
    thread.start()
    until(lambda: "stopping: drain" in layout.run_log.read_text())
    kill_and_wait(victim_of(layout, who))
    thread.join(60)
    assert [answer.done for answer in answers] == [True]
    assert not alive(launched.identity) and not is_held(layout)
    restart(layout, launched.identity)


def test_frozen_it_is_stopped_all_the_same(layout: Layout) -> None:
    launched = launch_fake(layout)
    assert launched.identity is not None
    send(launched.identity, signal.SIGSTOP)
    stopped = stop_run(layout, "now", 0, launched.identity, BY, patience_s=0.3)
    assert stopped.done and not alive(launched.identity)


def test_a_frozen_supervisor_is_passed_by_and_named(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    import remote.stop

    monkeypatch.setattr(remote.stop, "_SLACK_S", 0.0)
    monkeypatch.setattr(remote.stop, "TERM_S", 0.2)
    monkeypatch.setattr(remote.stop, "KILL_S", 0.2)
    monkeypatch.setattr(remote.stop, "longest_s", lambda *args: 0.2)
    launched = launch_fake(layout)
    supervisor = supervisor_of(layout)
    send(supervisor, signal.SIGSTOP)
    stopped = stop_run(layout, "now", 0, launched.identity, BY, patience_s=0.3)
    assert not alive(launched.identity)
    assert [one.identity for one in stopped.left] == [supervisor] and not stopped.done
    assert stopped.left[0].state == "T"


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Layout]:
    """A root on a file system of 256 KiB."""
    needs_root("a tmpfs of its own")
    root = tmp_path / "tiny"
    root.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(root)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"needs to mount a tmpfs: {mounted.stderr.strip()}")
    made = Layout(root)
    try:
        yield made
        end_all(made)
    finally:
        until(lambda: subprocess.run(["umount", str(root)], capture_output=True).returncode == 0)


def fill(layout: Layout) -> None:
    with (layout.root / "ballast").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return


def test_a_full_disk_refuses_a_launch_with_its_name_and_leaves_nothing_running(tiny: Layout) -> None:
    fill(tiny)
    with pytest.raises(OperatorError) as refused:
        launch_fake(tiny)
    assert "No space left" in refused.value.message and str(tiny.state) in refused.value.message
    assert not is_held(tiny)
    (tiny.root / "ballast").unlink()


def test_on_a_disk_that_fills_while_it_runs_a_stop_still_works(tiny: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    # The program's own copy is made when it is launched from a checkout, and larger than this disk.
    import remote.detached

    monkeypatch.setattr(remote.detached, "durable_archive", lambda folder: (_ for _ in ()).throw(OSError(28, "full")))
    for mode in ("drain", "force"):
        launched = launch_fake(tiny)
        fill(tiny)
        stopped = stop_run(tiny, mode, 5, launched.identity, BY)
        assert not alive(launched.identity) and stopped.left == ()
        (tiny.root / "ballast").unlink()
        until(lambda: not is_held(tiny))
    assert os.listdir(tiny.root) == [".eagle3"]
