"""A generator against a real SGLang: to its budget, through a crash, stopped, with prompts that must never be sent."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remote.exitcodes import ExitCode
from remote.options import Options
from remote.probe import probe_engine
from tests.engine.real.conftest import RealEngine
from tests.engine.real.environment import MODEL
from tests.support.engine import wait_until
from tests.support.generating import (
    QUICK_PACE,
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
    tokens,
)
from tests.support.tree import prompt

pytestmark = pytest.mark.realengine
B4, B5 = "B4_mixturethoughts", "B5_openthoughts"
EOS = {2001, 2002}
LIMIT_S = 240.0


def options_for(root: Path, server: RealEngine, **changes: Any) -> Options:
    plain = make_options(root, server.url, concurrency=6, max_new_tokens=120)
    return replace(plain, model_path=str(MODEL), trust_remote_code=True, **changes)


def texts(count: int, kind: str) -> Sequence[dict[str, Any]]:
    return [prompt(f"{kind}-{number}", f"Explain {kind} number {number} to a friend.") for number in range(count)]


def test_the_probe_knows_what_it_looks_at(server: RealEngine) -> None:
    facts = probe_engine(server.url)
    assert (facts.health, facts.version, facts.context_length) == ("healthy", server.version, 4096)
    assert facts.model_path == str(MODEL) and facts.weight_version == "default" and not facts.router
    assert facts.running == 0 and facts.max_total_tokens == 16384


def test_a_whole_run_to_its_budgets(server: RealEngine, tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: texts(60, "tea"), B5: texts(60, "rain")})
    ran = run_here(options_for(root, server, token_budget=make_options(root, "", budget=2_500).token_budget))
    assert ran.code == ExitCode.DONE, ran.log
    for folder in (B4, B5):
        assert 2_500 <= tokens(root, folder) < 3_500
        answered_once(root, folder)
        for record in records(root, folder):
            assert record["finish_reason"] == ("stop" if record["output_ids"][-1] in EOS else "length")
    [engine] = [line["engine"] for line in state_lines(root, "runs.jsonl") if line["event"] == "engine"]
    assert engine["version"] == server.version


def test_prompts_that_must_never_be_sent(server: RealEngine, tmp_path: Path) -> None:
    bad = [
        ids_prompt("too-long", *([100] * 4_200)),
        ids_prompt("outside", 100, 2_048),
        ids_prompt("negative-free", 100, 7),
    ]
    root = make_root(tmp_path, {B4: [*bad, *texts(4, "good")]})
    ran = run_here(options_for(root, server))
    assert ran.code == ExitCode.DONE, ran.log
    assert {line["sample_id"]: line["reason"] for line in state_lines(root, "failed.jsonl")} == {
        "too-long": "too-long",
        "outside": "outside-vocabulary",
    }
    assert len(answered_once(root, B4)) == 5 and server.alive


def test_a_prompt_that_fills_the_context_gets_what_is_left(server: RealEngine, tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: [ids_prompt("long", *([100] * 4_050)), *texts(3, "short")]})
    ran = run_here(options_for(root, server, max_new_tokens=500))
    assert ran.code == ExitCode.DONE, ran.log
    assert "long" in answered_once(root, B4)


def test_a_foreign_abort_is_asked_again(server: RealEngine, tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: texts(12, "abort")})

    def abort_all() -> None:
        wait_until("requests", lambda: progress(root).get("in_flight", 0) >= 6, LIMIT_S)
        server.post("/abort_request", json.dumps({"abort_all": True}).encode())

    with meanwhile(abort_all):
        ran = run_here(options_for(root, server, max_new_tokens=800, sampling={"ignore_eos": True}))
    assert ran.code == ExitCode.DONE, ran.log
    assert len(answered_once(root, B4)) == 12
    assert progress(root)["errors"].get("aborted", 0) >= 1
    assert all(len(record["output_ids"]) == 800 for record in records(root, B4))


def test_sigterm_aborts_by_name_and_the_engine_is_free_afterwards(server: RealEngine, tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: texts(40, "stop")})
    options = options_for(root, server, max_new_tokens=3_500, sampling={"ignore_eos": True}, drain_s=0.5)
    generator = ForkedRun(options, tmp_path / "log")
    try:
        wait_until("it to begin", lambda: generator.ended or "B4 begins" in generator.said(), LIMIT_S)
        wait_until("running requests", lambda: generator.ended or server.running() >= 3, LIMIT_S)
        generator.signal(signal.SIGTERM)
        assert generator.wait() == ExitCode.STOPPED, generator.said()
    finally:
        generator.close()
    assert "cancelled and aborted" in generator.said()
    wait_until("the engine to be free", lambda: server.running() == 0)


def test_the_engine_is_killed_in_mid_run_and_comes_back(server: RealEngine, tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: texts(30, "crash")})

    def crash() -> None:
        wait_until("answers", lambda: len(records(root, B4)) >= 4, LIMIT_S)
        server.kill()
        wait_until("the run to notice", lambda: progress(root).get("engine_state") == "down", LIMIT_S)
        server.start()

    pace = replace(QUICK_PACE, gate=replace(QUICK_PACE.gate, down_s=0.5, loading_s=2.0, look_limit_s=25.0))
    with meanwhile(crash, LIMIT_S):
        ran = run_here(options_for(root, server, max_new_tokens=300), pace)
    assert ran.code == ExitCode.DONE, ran.log
    assert len(answered_once(root, B4)) == 30
    assert "the engine is healthy again" in ran.log
    assert not state_lines(root, "failed.jsonl")
