"""A laptop that sleeps: real consoles are stopped, the network goes meanwhile, and they wake to what is no more."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.controller import ASLEEP_S
from tests.support.cli import environment
from tests.support.needs import needs
from tests.support.netns import Namespace, namespace
from tests.support.sshd import Server, sshd, wait_for_port
from tests.support.terminal import Terminal
from tests.support.told import told, words_for
from tests.support.tree import make_tree


@pytest.fixture
def far(folder: Path) -> Iterator[tuple[Namespace, Server]]:
    """A server on another network."""
    needs("sshd", "ssh")
    far = folder / "sleep"
    far.mkdir(mode=0o755, exist_ok=True)
    with namespace() as space, sshd(far, prefix=space.prefix, host=space.address) as server:
        wait_for_port(server.port, space.address)
        yield space, server


def test_what_it_wakes_to_is_stale_at_once_and_then_the_truth(far: tuple[Namespace, Server], tmp_path: Path) -> None:
    space, server = far
    words = [*words_for(server), "--root", str(make_tree(tmp_path / "prepared")), "--engine-url", "http://127.0.0.1:9"]
    home = tmp_path / "home"
    screen = Terminal([sys.executable, "-m", "console.cli", *words], environment=environment(home))
    try:
        with told(*words, home=home) as watch:
            screen.until(lambda: "● live" in screen.text and "MixtureThoughts" in screen.text, 60)
            pids = (watch.process.pid, screen.process.pid)
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            began_s = time.monotonic()
            # The network still brings what the container says, and nobody reads it: news that will be old.
            time.sleep(2.0)
            space.silence()
            time.sleep(ASLEEP_S)
            slept_s = time.monotonic() - began_s
            seen = len(watch.lines)
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
            first = watch.lost(seen)
            assert first.link["state"] == "stale" and first.link["age_s"] >= slept_s - 0.5, "as old as it is"
            screen.until(lambda: "STALE" in screen.text, 10)
            given_up = watch.until(lambda link: link["state"] == "reconnecting", seen)
            assert "after a sleep of" in given_up.link["error"]
            space.heal()
            watch.live(seen)
            screen.until(lambda: "● live" in screen.text, 30)
            assert not [
                line for line in watch.lines[seen : watch.lines.index(given_up)] if line.link.get("state") == "live"
            ]
    finally:
        screen.close()


def test_a_link_that_outlived_the_sleep_is_live_again_and_not_made_anew(
    far: tuple[Namespace, Server], tmp_path: Path
) -> None:
    _, server = far
    words = [*words_for(server), "--root", str(make_tree(tmp_path / "prepared")), "--engine-url", "http://127.0.0.1:9"]
    with told(*words, home=tmp_path / "home") as watch:
        sessions = server.sessions()
        os.kill(watch.process.pid, signal.SIGSTOP)
        time.sleep(ASLEEP_S + 0.5)
        seen = len(watch.lines)
        os.kill(watch.process.pid, signal.SIGCONT)
        watch.live(watch.lines.index(watch.lost(seen)))
        assert server.sessions() == sessions
