"""What an operator's side can do to a launch: drop the link, kill the server, close the terminal, at any moment.

Afterwards there is one generator that gets ready, or none and a free lock; and none that was acknowledged is lost.
"""

from __future__ import annotations

import os
import pty
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote import procfs
from remote.identity import alive, identify
from remote.layout import Layout
from remote.members import find_members
from remote.runfile import read_run
from remote.status import generator_status
from tests.support.needs import find, needs
from tests.support.runs import REPO, end_all, fake_python, generator_of, supervisor_of, until
from tests.support.sshd import Server, sshd

WAYS = ("close the client", "kill the client", "kill the sessions")
COUNTS = [5, pytest.param(40, marks=pytest.mark.soak)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    needs("sshd", "ssh")
    with sshd(tmp_path_factory.mktemp("sshd"), ["PermitRootLogin yes", "LogLevel ERROR"]) as started:
        yield started


def launch_words(layout: Layout, folder: Path) -> str:
    python = fake_python(folder)
    words = [sys.executable, "-m", "remote", "launch", "--root", str(layout.root), "--python", str(python)]
    return f"cd {shlex.quote(str(REPO))} && {shlex.join(words)}"


def ssh_words(server: Server, *options: str) -> list[str]:
    quiet = ["-o", "BatchMode=yes", "-o", f"UserKnownHostsFile={server.known_hosts}", "-o", "LogLevel=ERROR"]
    where = ["-F", "none", "-i", str(server.identity), "-p", str(server.port), f"{server.user}@{server.host}"]
    return [find("ssh") or "ssh", *quiet, *options, *where]


def judge(layout: Layout, acknowledged: bool) -> bool:
    """Wait until the state is settled; it must be one of the two that are right. Returns whether one runs."""

    def settled() -> bool:
        if generator_status(layout).verdict == "running":
            return True
        # Its command line names the root in every one of its processes: a launcher that has not even taken
        # the lock yet, or a supervisor whose generator is not ready, are still on the way.
        return not any(str(layout.root) in " ".join(procfs.read_argv(pid)) for pid in procfs.pids())

    until(settled)
    status = generator_status(layout)
    if status.verdict == "running":
        assert len(find_members(status.run_id or "", status.identity)) == 1
        assert alive(status.identity)
        return True
    run = read_run(layout)
    assert not acknowledged and (run is None or run.generator is None), (status, layout.run_log.read_text())
    return False


@pytest.mark.parametrize("terminal", ["no terminal", "a terminal"])
@pytest.mark.parametrize("count", COUNTS)
def test_a_launch_survives_a_disconnect_at_any_moment(
    server: Server, tmp_path: Path, count: int, terminal: str
) -> None:
    chance = random.Random(count)
    ran = 0
    for number in range(count):
        root = tmp_path / str(number)
        root.mkdir()
        layout = Layout(root)
        way = chance.choice(WAYS)
        words = ssh_words(server, *(["-tt"] if terminal == "a terminal" else ["-T"]))
        client = subprocess.Popen(
            [*words, launch_words(layout, tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert client.stdin is not None and client.stdout is not None
        try:
            if chance.random() < 0.7:
                # Within the launch itself, however long connecting takes: from its first file on.
                until(layout.state.exists)
                time.sleep(chance.uniform(0.0, 0.7))
            else:
                time.sleep(chance.uniform(0.0, 1.5))
            if way == "kill the sessions":
                for pid in server.sessions():
                    os.kill(pid, signal.SIGKILL)
            elif way == "kill the client":
                client.kill()
            else:
                client.stdin.close()
                client.terminate()
            said = client.stdout.read()
            client.wait(30)
            ran += judge(layout, b"is ready" in said)
        finally:
            end_all(layout)
    assert count < 20 or 0 < ran < count, f"{ran} ran: the moments fell on both sides of the point of no return"


def test_an_acknowledged_one_survives_and_the_channel_closes_at_once(server: Server, tmp_path: Path) -> None:
    for terminal in ("-T", "-tt"):
        root = tmp_path / terminal
        root.mkdir()
        layout = Layout(root)
        try:
            # communicate() returns at end of file only: a child that held the channel's output would keep it open.
            done = subprocess.run(
                [*ssh_words(server, terminal), launch_words(layout, tmp_path)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=60,
            )
            assert b"is ready" in done.stdout and done.returncode == 0, done
            for pid in server.sessions():
                os.kill(pid, signal.SIGKILL)
            assert judge(layout, acknowledged=True) is True
        finally:
            end_all(layout)


def test_a_killed_tmux_server_takes_nothing_with_it(tmp_path: Path) -> None:
    needs("tmux")
    root = tmp_path / "prepared"
    root.mkdir()
    layout = Layout(root)
    tmux = [find("tmux") or "tmux", "-S", str(tmp_path / "tmux"), "-f", "/dev/null"]
    try:
        command = launch_words(layout, tmp_path)
        subprocess.run([*tmux, "new-session", "-d", "/bin/sh", "-c", f"{command}; sleep 600"], check=True, timeout=30)
        asked = subprocess.run(
            [*tmux, "display", "-p", "#{pid}"], capture_output=True, text=True, check=True, timeout=30
        )
        server = identify(int(asked.stdout))
        assert server is not None
        until(lambda: generator_status(layout).verdict == "running")
        os.kill(server.pid, signal.SIGKILL)
        until(lambda: not alive(server))
        assert judge(layout, acknowledged=True) is True
    finally:
        end_all(layout)


def test_a_closed_terminal_takes_nothing_with_it(tmp_path: Path) -> None:
    """The laptop's lid: the terminal vanishes under the shell, which gets its hang-up."""
    root = tmp_path / "prepared"
    root.mkdir()
    layout = Layout(root)
    shell, terminal = pty.fork()
    if shell == 0:
        # Whoever runs the tests may ignore the hang-up, as nohup does; a login shell does not.
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.execv("/bin/sh", ["/bin/sh", "-c", f"{launch_words(layout, tmp_path)}; sleep 600"])
    try:
        said = b""
        while b"log:" not in said:
            said += os.read(terminal, 4096)
        assert re.search(rb"generator pid \d+", said)
        for identity in (supervisor_of(layout), generator_of(layout)):
            fields = Path(f"/proc/{identity.pid}/stat").read_text().rpartition(")")[2].split()
            assert fields[4] == "0", "no terminal controls it (proc_pid_stat(5), tty_nr)"
        os.close(terminal)
        os.waitpid(shell, 0)
        assert judge(layout, acknowledged=True) is True
    finally:
        end_all(layout)
