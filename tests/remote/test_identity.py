"""Signals reach exactly the process that was meant: not a reused pid, not a zombie, not another boot's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from remote import identity as identities
from remote import procfs
from remote.identity import Identity, alive, identify, myself, send, wait_gone
from tests.support.needs import needs, needs_root
from tests.support.runs import REPO, identity_of, process, until


@pytest.fixture(params=["pidfd", "no pidfd"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With pidfds, and as under an older kernel or sandbox that has none."""
    if request.param == "no pidfd":
        monkeypatch.setattr(identities, "_pidfd", lambda pid: None)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with process("sleep", "600") as child:
        yield child


def test_a_process_is_what_it_is(sleeper: subprocess.Popen[bytes]) -> None:
    found = identity_of(sleeper)
    assert found == Identity.from_json(found.to_json())
    assert alive(found) and not alive(None)
    assert identify(2**22 + 1) is None


@pytest.mark.parametrize(
    "other", [{"start_ticks": 1}, {"boot_id": "00000000-0000-0000-0000-000000000000"}, {"pid_ns": "pid:[1]"}]
)
def test_one_that_differs_anywhere_is_never_signalled(
    kernel: None, sleeper: subprocess.Popen[bytes], other: dict[str, object]
) -> None:
    wrong = replace(identity_of(sleeper), **other)  # type: ignore[arg-type]
    assert not alive(wrong)
    assert send(wrong, signal.SIGKILL) is False
    assert alive(identity_of(sleeper))


def test_the_right_one_is_signalled_and_its_end_awaited(kernel: None, sleeper: subprocess.Popen[bytes]) -> None:
    found = identity_of(sleeper)
    assert wait_gone([found], 0.05) == [found]
    assert send(found, signal.SIGTERM) is True
    assert wait_gone([found], 30) == []


def test_a_zombie_is_dead(kernel: None, sleeper: subprocess.Popen[bytes]) -> None:
    found = identity_of(sleeper)
    os.kill(sleeper.pid, signal.SIGKILL)
    assert wait_gone([found], 30) == []
    stat = procfs.read_stat(sleeper.pid)
    assert stat is not None and stat.state == "Z", "nobody reaped it, so its pid is still taken"
    assert not alive(found) and identify(sleeper.pid) is None and send(found, signal.SIGTERM) is False


def test_a_name_with_parentheses_and_blanks_does_not_shift_the_fields(tmp_path: object) -> None:
    code = "import ctypes,time; ctypes.CDLL(None).prctl(15, b') R 1 (', 0, 0, 0); print(flush=True); time.sleep(600)"
    with process(sys.executable, "-c", code, ready=True) as child:
        stat = procfs.read_stat(child.pid)
        assert stat is not None
        assert (stat.comm, stat.ppid, stat.session) == (") R 1 (", os.getpid(), child.pid)


@pytest.mark.parametrize(
    "junk", [None, 3, [], {}, {"pid": True}, {"pid": 1, "start_ticks": "x", "boot_id": "", "pid_ns": ""}]
)
def test_what_is_no_identity_is_none(junk: object) -> None:
    assert Identity.from_json(junk) is None


PID_REUSE = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from remote.identity import alive, identify, send, wait_gone
from remote import procfs

assert os.getpid() == 1, "this process is the namespace's PID 1, and reaps nothing by itself"
victim = os.fork()
if victim == 0:
    signal.pause()
meant = identify(victim)
os.kill(victim, signal.SIGKILL)
assert wait_gone([meant], 30) == []
assert procfs.read_stat(victim).state == "Z" and not alive(meant), "a zombie of a PID 1 that does not reap is dead"
os.waitpid(victim, 0)
# A pid comes round again after millions of others, so never within the clock tick in which the first one began.
while float(open("/proc/uptime").read().split()[0]) * os.sysconf("SC_CLK_TCK") < meant.start_ticks + 2:
    os.sched_yield()
# The same pid again, for a process with the same command line.
with open("/proc/sys/kernel/ns_last_pid", "w") as file:
    file.write(str(victim - 1))
innocent = os.fork()
if innocent == 0:
    signal.pause()
assert innocent == victim, (innocent, victim)
assert procfs.read_argv(innocent) == procfs.read_argv(os.getpid())
assert not alive(meant) and not send(meant, signal.SIGKILL)
assert alive(identify(innocent)), "the innocent process lives"
os.kill(innocent, signal.SIGKILL)
os.waitpid(innocent, 0)
print("ok")
"""


def test_a_reused_pid_is_somebody_else() -> None:
    needs("unshare")
    needs_root("a pid namespace of its own, to have a pid reused")
    argv = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", PID_REUSE, str(REPO)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


def test_own_identity() -> None:
    assert myself().pid == os.getpid() and alive(myself())
    until(lambda: procfs.started_at(procfs.read_stat(os.getpid())) is not None)  # type: ignore[arg-type]
