"""`watch --notify` as a program: real receivers that fail and stall, a link that is lost, a watch that is restarted."""

from __future__ import annotations

import functools
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from remote.layout import Layout
from tests.support.cli import console, start_console, wait_until
from tests.support.following import Following
from tests.support.sink import STALL, Sink, sink
from tests.support.sshd import children
from tests.support.tree import SMALL_BUDGET, make_tree

INTERRUPT = signal.SIGTERM if signal.getsignal(signal.SIGINT) is signal.SIG_IGN else signal.SIGINT
"""A shell has its background jobs ignore Ctrl-C, and we honour it."""
SECRET = "T0PS3CRET"
UNREADABLE = "unreadable:B4_mixturethoughts"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "prepared")


@contextmanager
def watching(tmp_path: Path, root: Path, *more: str, **environment: str) -> Iterator[Following]:
    """A watch of the tree on this machine, with no engine: an alert that is there from the start."""
    words = ["watch", "local", "--root", str(root), "--token-budget", str(SMALL_BUDGET)]
    process = start_console(*words, "--engine-url", "http://127.0.0.1:9", *more, home=tmp_path / "home", **environment)
    watch = Following(process)
    try:
        yield watch
    finally:
        if process.poll() is None:
            watch.end(signal.SIGKILL)


def told(server: Sink) -> list[tuple[str, str]]:
    """What a receiver of the generic shape was told, in order."""
    return [(body["event"], body["key"]) for body in (json.loads(post.body) for post in server.posts)]


def test_each_alert_is_told_once_over_failures_lost_links_and_restarts(tmp_path: Path, root: Path) -> None:
    unreadable = root / "B4_mixturethoughts" / "raw_responses.jsonl"
    with sink(503, 200) as plain, sink(STALL, STALL, STALL) as stalling:
        notify = {"EAGLE3_NOTIFY": f"{plain.url}/{SECRET}"}
        config = tmp_path / "home" / "config" / "eagle3-console" / "config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(
            f'default_profile = "here"\n[profiles.here]\nhost = "local"\n'
            f'notify = ["{plain.url}/{SECRET}", "slack+{stalling.url}/{SECRET}"]\n'
        )
        words = ["watch", "here", "--root", str(root), "--engine-url", "http://127.0.0.1:9", "--notify"]
        process = start_console(*words, home=tmp_path / "home")
        watch = Following(process)
        try:
            first, again = plain.wait(2)
            assert first.body == again.body, "a failed post is repeated as it was, with the id that tells so"
            assert first.headers["Idempotency-Key"] == json.loads(first.body)["id"]
            assert json.loads(first.body)["level"] == "warning"
            unreadable.mkdir()
            plain.wait(3)
            assert SECRET.encode() not in Path(f"/proc/{process.pid}/cmdline").read_bytes()

            for agent in children(process.pid):
                os.kill(agent, signal.SIGKILL)
            wait_until(lambda: watch.said("link live", 2), 30, "it connects again")
            assert watch.said("link reconnecting")
            unreadable.rmdir()
            plain.wait(4, 45)
            assert watch.end() == 0
        finally:
            if process.poll() is None:
                watch.end(signal.SIGKILL)
        assert told(plain) == [
            ("raised", "engine-unhealthy"),
            ("raised", "engine-unhealthy"),
            ("raised", UNREADABLE),
            ("recovered", UNREADABLE),
        ]
        ids = {post.headers["Idempotency-Key"] for post in stalling.posts}
        assert len(ids) == 1, "the one that stalls is asked again for the same, and held nobody up"

        unreadable.mkdir()
        with watching(tmp_path, root, "--notify", **notify) as restarted:
            plain.wait(5)
            wait_until(lambda: restarted.said("engine at"), 10, "it sees what was told before")
            assert restarted.end(INTERRUPT) == 0
        assert told(plain)[4:] == [("raised", UNREADABLE)]
        for line in [*watch.out, *watch.err, *restarted.out, *restarted.err]:
            assert SECRET not in line and "Traceback" not in line and "\x1b" not in line
        kept = [path for path in (tmp_path / "home" / "state").rglob("*") if path.is_file()]
        assert kept and all(SECRET.encode() not in path.read_bytes() for path in kept)
        assert any("nothing was running on" in line for line in watch.err), watch.err


def test_a_second_watch_waits_for_the_first(tmp_path: Path, root: Path) -> None:
    with sink() as server:
        notify = {"EAGLE3_NOTIFY": f"ntfy+{server.url}/{SECRET}"}
        with watching(tmp_path, root, "--notify", **notify) as first:
            (post,) = server.wait(1)
            assert post.headers["Title"] == "eagle3 warning on local" and post.headers["Priority"] == "high"
            assert b"the engine at" in post.body
            with watching(tmp_path, root, "--notify", "--json", **notify) as second:
                wait_until(lambda: second.said("another watch posts"), 30, "it says that it waits")
                wait_until(lambda: second.said('"event": "alert"'), 30, "it tells on stdout all the same")
                assert second.end() == 0
            assert first.end() == 0
        assert len(server.posts) == 1


def test_without_an_address_it_says_where_to_set_one(tmp_path: Path, root: Path) -> None:
    refused = console("watch", "local", "--root", str(root), "--notify", home=tmp_path / "home")
    assert refused.code == 2 and "EAGLE3_NOTIFY" in refused.err
    shown = console("watch", "local", "--notify", "https://hooks.example/secret", home=tmp_path / "home")
    assert shown.code == 2, "an address is a secret and no word of a command line"


def test_a_mistyped_target_ends_a_watch_and_an_outage_does_not(tmp_path: Path) -> None:
    ended = console("watch", "root@127.0.0.1:9", home=tmp_path / "home")
    assert ended.code == 1 and "refused the connection" in ended.err
    with sink() as server:
        heart = {"EAGLE3_HEARTBEAT": server.url}
        process = start_console("watch", "root@127.0.0.1:9", "--notify", home=tmp_path / "home", **heart)
        watch = Following(process)
        wait_until(lambda: watch.said("trying again"), 30, "it goes on")
        assert watch.end() == 0
        assert server.posts == [], "no sign of life for what was never seen"


def test_a_heartbeat_goes_on_as_long_as_the_container_is_seen(tmp_path: Path, root: Path) -> None:
    with sink(200, 500) as server:
        heart = {"EAGLE3_HEARTBEAT": f"{server.url}/{SECRET}", "EAGLE3_HEARTBEAT_S": "1"}
        with watching(tmp_path, root, "--notify", **heart) as watch:
            server.wait(3)
            wait_until(lambda: watch.said("arrives again"), 10, "a failure is told, and its end")
            assert watch.said("HTTP 500")
            (agent,) = children(watch.process.pid)
            os.kill(agent, signal.SIGSTOP)
            wait_until(lambda: watch.said("link stale"), 20, "the silence is noticed")
            with server.arrived:
                seen = len(server.posts)
                assert not server.arrived.wait_for(lambda: len(server.posts) > seen + 1, 3.0)
            os.kill(agent, signal.SIGCONT)
            server.wait(len(server.posts) + 1)
            assert watch.end() == 0
        assert not watch.said(SECRET)


def test_a_followed_log_outlasts_a_lost_link(tmp_path: Path, root: Path) -> None:
    log = Layout(root).run_log
    log.parent.mkdir()
    log.write_text("first\n")
    process = start_console("logs", "local", "--root", str(root), "-f", home=tmp_path / "home")
    shown = Following(process)
    wait_until(lambda: shown.said("first"), 30, "the end of the log")
    for gaps, words in enumerate(("second", "third"), 1):
        for agent in children(process.pid):
            os.kill(agent, signal.SIGKILL)
        # However soon it is back, before the next look at the log or after it.
        wait_until(functools.partial(shown.said, "goes on when it is back", gaps), 30, "the gap is told")
        with log.open("a") as file:
            file.write(f"{words}\n")
        wait_until(functools.partial(shown.said, words), 30, "it goes on where it was")
    shown.end()
    assert shown.out == ["first\n", "second\n", "third\n"]
    assert sum("goes on when it is back" in line for line in shown.err) == 2, "and each gap once"
