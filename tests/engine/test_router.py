"""Scale-out: the real `sglang-router` in front of two stand-in engines. What it hides is shown as unknown."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from remote.exitcodes import ExitCode
from remote.inflight import abort_leftovers
from remote.layout import Layout
from remote.probe import probe_engine
from tests.support.engine import StandIn, stand_in, wait_until
from tests.support.generating import (
    ForkedRun,
    answered_once,
    make_options,
    make_root,
    meanwhile,
    progress,
    records,
    run_here,
    state_lines,
)

B4 = "B4_mixturethoughts"


@dataclass
class Routed:
    """A router's address and the two engines behind it."""

    url: str
    engines: tuple[StandIn, StandIn]

    def running(self) -> list[str]:
        """The rids that run on both."""
        return [rid for engine in self.engines for rid in engine.seen()["running"]]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def routed() -> Iterator[Routed]:
    """A router that has registered both engines."""
    if find_spec("sglang_router") is None:
        pytest.skip("needs sglang-router (pip install sglang-router)")
    port, prometheus = free_port(), free_port()
    with stand_in(request_tokens_s=300) as one, stand_in(request_tokens_s=300) as two:
        words = [sys.executable, "-m", "sglang_router.launch_router", "--worker-urls", one.url, two.url]
        words += ["--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(prometheus)]
        words += [
            "--prometheus-host",
            "127.0.0.1",
            "--disable-retries",
            "--policy",
            "round_robin",
            "--request-timeout-secs",
            "86400",
        ]
        router = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        url = f"http://127.0.0.1:{port}"
        try:
            wait_until("two healthy workers", lambda: router.poll() is not None or _healthy(url) == 2, 60)
            assert router.poll() is None, "the router ended"
            yield Routed(url, (one, two))
        finally:
            router.send_signal(signal.SIGTERM)
            try:
                router.wait(10)
            except subprocess.TimeoutExpired:
                router.kill()
                router.wait(10)


def _healthy(url: str) -> int:
    try:
        with urllib.request.urlopen(url + "/workers", timeout=5) as answer:
            return sum(worker["is_healthy"] for worker in json.loads(answer.read())["workers"])
    except OSError:
        return 0


def test_the_probe_says_what_a_router_hides(routed: Routed) -> None:
    facts = probe_engine(routed.url)
    assert facts.health == "healthy" and facts.router
    assert set(facts.workers) == {engine.url for engine in routed.engines}
    assert facts.running is None and facts.queued is None and facts.token_usage is None and facts.tokens_s is None
    assert facts.model_path == make_options(Path(), "").model_path


def test_a_run_uses_both_engines(routed: Routed, tmp_path: Path) -> None:
    before = [engine.seen()["requests"] for engine in routed.engines]
    root = make_root(tmp_path, {B4: 60})
    ran = run_here(make_options(root, routed.url))
    assert ran.code == ExitCode.DONE, ran.log
    assert len(answered_once(root, B4)) == 60
    after = [engine.seen()["requests"] for engine in routed.engines]
    assert all(now - then >= 10 for then, now in zip(before, after, strict=True)), "both had their share"
    [engine] = [line["engine"] for line in state_lines(root, "runs.jsonl") if line["event"] == "engine"]
    assert engine["router"] and engine["workers"] == 2 and engine["version"] is None


def test_a_stop_aborts_on_the_workers(routed: Routed, tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 300})
    generator = ForkedRun(make_options(root, routed.url, drain_s=0.1), tmp_path / "log")
    try:
        wait_until("answers", lambda: len(records(root, B4)) >= 4)
        for engine in routed.engines:
            engine.fault("hang", count=8)
        wait_until("requests that hang", lambda: len(routed.running()) == 8)
        generator.signal(signal.SIGTERM)
        assert generator.wait() == ExitCode.STOPPED, generator.said()
    finally:
        generator.close()
        for engine in routed.engines:
            engine.fault("clear")
    assert routed.running() == []
    assert "the engine now runs an unknown number of requests" in generator.said()


def test_leftovers_behind_a_router_are_aborted_on_the_workers(routed: Routed, tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 300})
    for engine in routed.engines:
        engine.fault("hang", count=-1)
    generator = ForkedRun(make_options(root, routed.url), tmp_path / "log")
    try:
        wait_until("requests that hang", lambda: len(routed.running()) == 8)
        generator.signal(signal.SIGKILL)
        generator.wait()
        found = abort_leftovers(Layout(root))
    finally:
        generator.close()
        for engine in routed.engines:
            engine.fault("clear")
    assert found.found == found.aborted == 8
    wait_until("free engines", lambda: routed.running() == [])


def test_one_engine_of_two_dies_and_every_prompt_is_answered(routed: Routed, tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 60})
    dead = routed.engines[1]

    def kill() -> None:
        wait_until("answers", lambda: len(records(root, B4)) >= 10)
        dead.kill()
        wait_until("retries", lambda: progress(root).get("retries", 0) > 0)
        dead.start()

    with meanwhile(kill):
        ran = run_here(make_options(root, routed.url))
    assert ran.code == ExitCode.DONE, ran.log
    # A crash behind a router is not seen as one: a prompt whose tries ran out meanwhile is set aside by name.
    aside = {line["sample_id"] for line in state_lines(root, "failed.jsonl")}
    assert len(answered_once(root, B4) | aside) == 60
    if aside:
        assert run_here(make_options(root, routed.url, retry_failed=True)).code == ExitCode.DONE
    assert len(answered_once(root, B4)) == 60
