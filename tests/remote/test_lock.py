"""One writer under a root, whoever of its processes is killed; the second one learns who holds it."""

from __future__ import annotations

import errno
import fcntl
import json
import multiprocessing
import os
import subprocess
import sys
from typing import Any

import pytest

from remote.errors import OperatorError
from remote.layout import Layout
from remote.lock import RunLock, holder, is_held
from tests.support.runs import REPO, process

TAKE = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from remote.layout import Layout
from remote.lock import RunLock
lock = RunLock.take(Layout(Path(sys.argv[2])), "retokenize", "bob@desk")
print("taken", flush=True)
sys.stdin.read()
"""


def test_the_second_is_told_who_holds_it(layout: Layout) -> None:
    with process(sys.executable, "-c", TAKE, str(REPO), str(layout.root), ready=True, stdin=subprocess.PIPE) as child:
        with pytest.raises(OperatorError) as refused:
            RunLock.take(layout, "launch", "ann@laptop")
        assert refused.value.code == "lock-held"
        assert f"pid {child.pid} (retokenize), started by bob@desk" in refused.value.message
        found = holder(layout)
        assert found is not None and found.pids == (child.pid,) and found.identity is not None
        assert found.identity.pid == child.pid
        child.kill()
        child.wait()
        assert is_held(layout) is False and holder(layout) is None
        RunLock.take(layout, "launch").release()


def test_an_inheritor_keeps_it_and_giving_up_a_copy_does_not_free_it(layout: Layout) -> None:
    lock = RunLock.take(layout, "launch")
    with process("sleep", "600", pass_fds=(lock.fd,)) as child:
        lock.release()
        assert is_held(layout) is True
        found = holder(layout)
        assert found is not None and found.pids == (child.pid,)
    assert is_held(layout) is False


def test_only_a_lock_file_can_be_inherited(layout: Layout) -> None:
    with RunLock.take(layout, "launch") as lock:
        copy = os.dup(lock.fd)
        with RunLock.inherit(copy) as inherited:
            assert inherited.fd == copy and not os.get_inheritable(copy)
        with pytest.raises(OperatorError, match=r"run\.lock"):
            RunLock.inherit(0)


def test_looking_never_costs_a_start_its_lock(layout: Layout) -> None:
    layout.make_state()
    layout.run_lock.touch()
    looking = os.open(layout.run_lock, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    pid = os.fork()
    if pid == 0:
        # A look in progress, over after a moment: as `status` does it in another process.
        import time

        time.sleep(0.1)
        os._exit(0)
    os.close(looking)
    with RunLock.take(layout, "launch") as lock:
        assert lock.locked
    os.waitpid(pid, 0)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_that_cannot_lock_is_said_and_asked(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def flock(fd: int, how: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(OperatorError) as refused:
        RunLock.take(layout, "launch")
    assert refused.value.code == "cannot-lock" and "--accept cannot-lock" in refused.value.remedy
    with RunLock.take(layout, "launch", "ann@laptop", accept_unlocked=True) as lock:
        assert lock.locked is False
        # What the kernel cannot tell, the file's content still does while its writer lives.
        with pytest.raises(OperatorError, match="already has a writer"):
            RunLock.take(layout, "launch", accept_unlocked=True)


@pytest.mark.parametrize("content", [b"", b"\0\0", b"[]", b'{"pid": "x", "identity": 3, "since": "now"}', b"{" * 5000])
def test_a_damaged_lock_file_still_locks(layout: Layout, content: bytes) -> None:
    with RunLock.take(layout, "launch"):
        layout.run_lock.write_bytes(content)
        with pytest.raises(OperatorError) as refused:
            RunLock.take(layout, "launch")
        assert f"pid {os.getpid()}" in refused.value.message


def test_no_root_is_said(layout: Layout) -> None:
    with pytest.raises(OperatorError) as refused:
        RunLock.take(Layout(layout.root / "not" / "there"), "launch")
    assert refused.value.code == "not-writable"


def _race(root: str, start: Any, results: Any) -> None:
    from pathlib import Path

    start.wait()
    try:
        lock = RunLock.take(Layout(Path(root)), "launch", f"pid-{os.getpid()}")
    except OperatorError as error:
        results.put((error.code, error.message))
    else:
        results.put(("taken", ""))
        start.wait()
        lock.release()


def test_of_many_at_once_exactly_one_takes_it(layout: Layout) -> None:
    context = multiprocessing.get_context("fork")
    count = 6
    start, results = context.Barrier(count + 1), context.Queue()
    children = [context.Process(target=_race, args=(str(layout.root), start, results)) for _ in range(count)]
    for child in children:
        child.start()
    start.wait(30)
    outcomes = [results.get(timeout=30) for _ in range(count)]
    start.abort()
    for child in children:
        child.join(30)
    assert sorted(code for code, _ in outcomes) == ["lock-held"] * (count - 1) + ["taken"]
    assert all("pid" in message for code, message in outcomes if code == "lock-held")
    assert json.loads(layout.run_lock.read_bytes())["purpose"] == "launch"
