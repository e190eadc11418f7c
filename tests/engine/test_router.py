"""Scale-out: the real `sglang-router` in front of two stand-in engines. What it hides is shown as unknown."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from remote.exitcodes import ExitCode
from remote.inflight import abort_leftovers
from remote.layout import Layout
from remote.probe import probe_engine
from remote.suspects import CRASHES
from remote.tombstones import read_tombstones
from tests.support.engine import StandIn, stand_in, wait_until
from tests.support.generating import (
    ForkedRun,
    answered_once,
    ids_prompt,
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


@contextmanager
def router_before_two(*flags: str) -> Iterator[Routed]:
    """A router that has registered two engines; `flags` are further ones of the router."""
    if find_spec("sglang_router") is None:
        pytest.skip("needs sglang-router (pip install sglang-router)")
    port, prometheus = free_port(), free_port()
    with stand_in(request_tokens_s=300) as one, stand_in(request_tokens_s=300) as two:
        words = [sys.executable, "-m", "sglang_router.launch_router", "--worker-urls", one.url, two.url]
        words += ["--host", "127.0.0.1", "--port", str(port)]
        words += ["--prometheus-host", "127.0.0.1", "--prometheus-port", str(prometheus)]
        words += ["--disable-retries", "--policy", "round_robin", "--request-timeout-secs", "86400", *flags]
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


@pytest.fixture(scope="module")
def routed() -> Iterator[Routed]:
    """A router as docs/generating.md says to start it."""
    with router_before_two() as found:
        yield found


@pytest.fixture(scope="module")
def forgiving() -> Iterator[Routed]:
    """One that asks an engine again a second after it broke off with it, so that a test need not wait a minute."""
    with router_before_two("--cb-timeout-duration-secs", "1", "--cb-success-threshold", "1") as found:
        yield found


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
    assert len(answered_once(root, B4)) == 60
    assert not state_lines(root, "failed.jsonl")


def set_aside(root: Path) -> dict[str, str]:
    """The prompts that are set aside, and why."""
    return {key: stone.reason for key, stone in read_tombstones(Layout(root)).get(B4, {}).items()}


def test_both_engines_die_and_the_run_waits_for_them(forgiving: Routed, tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 60})

    def kill() -> None:
        wait_until("answers", lambda: len(records(root, B4)) >= 10)
        for engine in forgiving.engines:
            engine.kill()
        wait_until("the run to notice", lambda: progress(root).get("engine_state") == "down")
        for engine in forgiving.engines:
            engine.start()

    with meanwhile(kill):
        ran = run_here(make_options(root, forgiving.url))
    assert ran.code == ExitCode.DONE, ran.log
    assert len(answered_once(root, B4)) == 60
    assert not state_lines(root, "failed.jsonl")
    assert "none of the 2 engines behind the router answers" in ran.log and "the engine is healthy again" in ran.log


def test_a_prompt_that_kills_engines_behind_a_router_is_set_aside_and_no_innocent_is(
    forgiving: Routed, tmp_path: Path
) -> None:
    killer = ids_prompt("killer", 20, 777)
    root = make_root(tmp_path, {B4: [*(ids_prompt(n, 20, 100 + n) for n in range(20)), killer]})
    deaths: list[StandIn] = []
    over = threading.Event()

    def keep_up() -> None:
        while not over.wait(0.02):
            for engine in forgiving.engines:
                if engine.has_died:
                    deaths.append(engine)
                    engine.wait_dead()
                    engine.start()
                    engine.fault("crash", token=777, count=-1)

    for engine in forgiving.engines:
        engine.fault("crash", token=777, count=-1)
    with meanwhile(keep_up):
        try:
            ran = run_here(make_options(root, forgiving.url))
        finally:
            over.set()
    for engine in forgiving.engines:
        engine.fault("clear")
    assert ran.code == ExitCode.DONE, ran.log
    assert answered_once(root, B4) == {str(n) for n in range(20)}
    assert set_aside(root) == {"killer": "engine-crash-suspect"}
    assert len(deaths) == CRASHES + 1, "twice in company, and once alone"
