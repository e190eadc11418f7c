"""What an engine does to a run at night: it dies, loads, hangs, refuses, changes, answers nonsense (CASES E1 to E9)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from remote.exitcodes import ExitCode
from remote.gate import GatePace
from remote.watchdog import WatchPace
from tests.support.engine import StandIn, stand_in, wait_until
from tests.support.generating import (
    QUICK_PACE,
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

B4, B5 = "B4_mixturethoughts", "B5_openthoughts"
SLOW = {"request_tokens_s": 300, "batch_tokens_s": 100_000}


def answered_at_least(root: Path, folder: str, number: int) -> bool:
    return len(records(root, folder)) >= number


def test_the_engine_dies_twice_and_no_prompt_is_lost(tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 60})

    def kill_twice() -> None:
        for number in (10, 35):
            wait_until("answers", lambda number=number: answered_at_least(root, B4, number))
            engine.kill()
            wait_until("the run to notice", lambda: progress(root).get("engine_state") == "down")
            engine.start()

    with stand_in(**SLOW) as engine, meanwhile(kill_twice):
        ran = run_here(make_options(root, engine.url))
    assert ran.code == ExitCode.DONE, ran.log
    assert len(answered_once(root, B4)) == 60
    assert ran.log.count("the engine is down") == 2 and ran.log.count("healthy again") == 2
    assert not [line for line in state_lines(root, "failed.jsonl") if not line.get("lifted")] or "alone" in ran.log


def test_an_engine_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 5})
    with stand_in() as engine:
        engine.kill()

        def come() -> None:
            wait_until("the run to wait", lambda: progress(root).get("engine_state") == "down")
            engine.start()

        with meanwhile(come):
            ran = run_here(make_options(root, engine.url))
    assert ran.code == ExitCode.DONE
    assert len(answered_once(root, B4)) == 5
    assert progress(root)["retries"] == 0, "waiting is no retry"


def test_an_engine_that_loads_is_waited_for(tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 5})
    with stand_in() as engine:
        engine.fault("set", loading=True)

        def finish_loading() -> None:
            wait_until("the run to wait", lambda: progress(root).get("engine_state") == "loading")
            assert engine.seen()["requests"] == 0
            engine.fault("set", loading=False)

        with meanwhile(finish_loading):
            ran = run_here(make_options(root, engine.url))
    assert ran.code == ExitCode.DONE
    assert len(answered_once(root, B4)) == 5


PASSING = {
    "http-500": {"kind": "status", "status": 500, "body": "Internal Server Error"},
    "http-400": {"kind": "status", "status": 400, "body": '{"error":"something odd"}'},
    "connection-lost": {"kind": "disconnect"},
    "not-json": {"kind": "garbage"},
    "no-meta-info": {"kind": "no-meta"},
    "not-an-answer": {"kind": "array"},
    "nan": {"kind": "nan"},
    "aborted": {"kind": "abort"},
    "prompt-truncated": {"kind": "truncate"},
    "id-count": {"kind": "extra"},
    "no-finish-reason": {"kind": "no-finish"},
}
"""The kind that is counted, and the fault that causes it."""
BUSY = [
    {"kind": "status", "status": 429},
    {"kind": "status", "status": 502, "body": "<html>Bad Gateway</html>"},
    {"kind": "status", "status": 503, "body": '{"object":"error","message":"The request queue is full."}'},
    {"kind": "status", "status": 504, "body": ""},
]
NO_JSON = [{"kind": "empty"}, {"kind": "cut"}]


def test_failures_that_pass_cost_no_prompt_and_leave_no_record(tmp_path: Path) -> None:
    root, clean = make_root(tmp_path / "faults", {B4: 40}), make_root(tmp_path / "clean", {B4: 40})
    with stand_in() as engine:
        run_here(make_options(clean, engine.url))
        for fault in (*PASSING.values(), *BUSY, *NO_JSON):
            engine.fault(**fault)
        ran = run_here(make_options(root, engine.url))
    assert ran.code == ExitCode.DONE, ran.log
    assert answered_once(root, B4) == answered_once(clean, B4)
    by_id = {record["sample_id"]: record for record in records(clean, B4)}
    assert all(record == by_id[record["sample_id"]] for record in records(root, B4))
    assert progress(root)["errors"] == {kind: 1 for kind in PASSING} | {
        "engine-busy": len(BUSY),
        "not-json": 1 + len(NO_JSON),
    }
    assert not state_lines(root, "failed.jsonl")


@pytest.mark.parametrize("kind", ["garbage", "empty", "no-meta", "nan", "truncate", "extra"])
def test_a_prompt_that_is_never_answered_well_is_set_aside_after_five_tries(kind: str, tmp_path: Path) -> None:
    bad = ids_prompt("bad", 20, 777, 30)
    root = make_root(tmp_path, {B4: [*(ids_prompt(f"good-{n}", 20, 100 + n) for n in range(12)), bad]})
    with stand_in() as engine:
        engine.fault(kind, token=777, count=-1)
        ran = run_here(make_options(root, engine.url, concurrency=2))
        requests = engine.seen()["requests"]
    assert ran.code == ExitCode.DONE, ran.log
    assert answered_once(root, B4) == {f"good-{n}" for n in range(12)}
    [stone] = state_lines(root, "failed.jsonl")
    assert (stone["dataset"], stone["sample_id"]) == (B4, "bad") and len(stone["prompt_digest"]) == 32
    assert requests == 12 + 5
    assert f"1 {stone['reason']}" in ran.log


def test_a_prompt_set_aside_is_asked_again_only_when_told_so(tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: [*(ids_prompt(n, 20, 100 + n) for n in range(3)), ids_prompt("bad", 20, 777)]})
    with stand_in() as engine:
        engine.fault("nan", token=777, count=5)
        run_here(make_options(root, engine.url, concurrency=1))
        assert len(state_lines(root, "failed.jsonl")) == 1
        asked = engine.seen()["requests"]
        run_here(make_options(root, engine.url))
        assert engine.seen()["requests"] == asked
        ran = run_here(make_options(root, engine.url, retry_failed=True))
    assert ran.code == ExitCode.DONE
    assert answered_once(root, B4) == {"0", "1", "2", "bad"}


def test_eight_different_prompts_that_fail_alike_stop_the_run_and_leave_no_tombstone(tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 40})
    with stand_in() as engine:
        engine.fault("garbage", count=-1)
        ran = run_here(make_options(root, engine.url))
    assert ran.code == ExitCode.REFUSED
    assert "first 8 different prompts all failed alike" in ran.log and "<html>" in ran.log
    assert not state_lines(root, "failed.jsonl") and not records(root, B4)


def test_an_engine_that_fails_everybody_in_mid_run_sets_nobody_aside(tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 60})

    def spoil_and_mend() -> None:
        wait_until("answers", lambda: answered_at_least(root, B4, 10))
        engine.fault("status", status=500, count=-1)
        wait_until("the run to say so", lambda: progress(root).get("engine_state") == "failing")
        before = engine.seen()["requests"]
        wait_until("many more attempts than anybody has tries", lambda: engine.seen()["requests"] > before + 60)
        engine.fault("clear")

    with stand_in(**SLOW) as engine, meanwhile(spoil_and_mend):
        ran = run_here(make_options(root, engine.url))
    assert ran.code == ExitCode.DONE, ran.log
    assert len(answered_once(root, B4)) == 60
    assert not state_lines(root, "failed.jsonl")


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "status", "status": 401, "body": '{"error":"Unauthorized"}'},
        {"kind": "status", "status": 404, "body": '{"detail":"Not Found"}'},
    ],
    ids=["401", "404"],
)
def test_401_and_404_stop_the_run_at_once(fault: dict[str, object], tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 40})
    with stand_in() as engine:
        engine.fault(**{"count": -1, **fault})
        ran = run_here(make_options(root, engine.url, concurrency=1))
        assert engine.seen()["requests"] == 1
    assert ran.code == ExitCode.REFUSED
    assert not state_lines(root, "failed.jsonl")


def test_the_right_key_is_used_and_never_shown_and_a_wrong_one_stops_the_run(tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 3})
    with stand_in(api_key="sk-very-secret") as engine:
        wrong = run_here(make_options(root, engine.url), api_key="sk-wrong-key")
        assert wrong.code == ExitCode.REFUSED and "API key" in wrong.log
        right = run_here(make_options(root, engine.url), api_key="sk-very-secret")
    assert right.code == ExitCode.DONE
    written = [path.read_bytes() for path in root.rglob("*") if path.is_file()]
    assert not any(b"sk-" in data for data in written)
    assert "sk-" not in right.log + wrong.log


def test_another_model_stops_the_run_before_and_during_it(tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 60})
    with stand_in(**SLOW) as engine:
        engine.fault("set", model_path="/models/other")
        before = run_here(make_options(root, engine.url))
        assert engine.seen()["requests"] == 0
        engine.fault("set", model_path=make_options(root, engine.url).model_path)

        def swap() -> None:
            wait_until("answers", lambda: answered_at_least(root, B4, 8))
            engine.fault("set", model_path="/models/other")

        with meanwhile(swap):
            during = run_here(make_options(root, engine.url))
        assert engine.seen()["running"] == []
    for ran in (before, during):
        assert ran.code == ExitCode.REFUSED and "another model" in ran.log
    assert len(answered_once(root, B4)) < 60


def test_new_weights_are_said_and_recorded(tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 60})

    def update() -> None:
        wait_until("answers", lambda: answered_at_least(root, B4, 8))
        engine.fault("set", weight_version="step-2")

    with stand_in(**SLOW) as engine, meanwhile(update):
        ran = run_here(make_options(root, engine.url))
    assert "weights changed from default to step-2" in ran.log
    engines = [
        line["engine"]["weight_version"] for line in state_lines(root, "runs.jsonl") if line["event"] == "engine"
    ]
    assert engines == ["default", "step-2"]
    assert {line["weight_version"] for line in state_lines(root, f"answers/{B4}.jsonl")} == {"default", "step-2"}


def test_a_prompt_too_long_for_the_context_is_set_aside_without_being_sent(tmp_path: Path) -> None:
    long = ids_prompt("long", *([20] * 600))
    root = make_root(tmp_path, {B4: [long, *(ids_prompt(n, 20, 100 + n) for n in range(5))]})
    with stand_in(context_length=512) as engine:
        ran = run_here(make_options(root, engine.url, accept=("model",)))
        assert engine.seen()["requests"] == 5
        assert engine.seen()["sampling"]["max_new_tokens"] == 509, "clamped to what the context leaves"
    assert ran.code == ExitCode.DONE
    [stone] = state_lines(root, "failed.jsonl")
    assert stone["sample_id"] == "long" and stone["reason"] == "too-long"


@pytest.mark.parametrize("concurrency", [16, 64])
def test_eight_long_prompts_at_the_head_of_a_file_stop_no_run(concurrency: int, tmp_path: Path) -> None:
    long = [ids_prompt(f"long-{n}", *([20] * (600 + n))) for n in range(9)]
    root = make_root(tmp_path, {B4: [*long, *(ids_prompt(n, 20, 100 + n) for n in range(20))]})
    with stand_in(context_length=512, **SLOW) as engine:
        ran = run_here(make_options(root, engine.url, accept=("model",), concurrency=concurrency))
    assert ran.code == ExitCode.DONE, ran.log
    assert answered_once(root, B4) == {str(n) for n in range(20)}
    stones = state_lines(root, "failed.jsonl")
    assert sorted(stone["sample_id"] for stone in stones) == [f"long-{n}" for n in range(9)]
    assert {stone["reason"] for stone in stones} == {"too-long"}


def test_a_whole_file_outside_the_vocabulary_stops_the_run_and_sets_nobody_aside(tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: [ids_prompt(n, 20, 9_999_999) for n in range(200)]})
    with stand_in() as engine:
        ran = run_here(make_options(root, engine.url))
        assert engine.seen()["requests"] == 0
    assert ran.code == ExitCode.REFUSED and "outside-vocabulary" in ran.log
    assert not state_lines(root, "failed.jsonl")


def test_a_400_about_length_is_final_for_its_prompt(tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: [*(ids_prompt(n, 20, 100 + n) for n in range(5)), ids_prompt("long", 20, 777)]})
    body = '{"error":{"message":"The input (5000 tokens) is longer than the model\'s context length (4096 tokens)."}}'
    with stand_in() as engine:
        engine.fault("status", status=400, body=body, token=777, count=-1)
        run_here(make_options(root, engine.url))
        assert engine.seen()["requests"] == 6
    [stone] = state_lines(root, "failed.jsonl")
    assert stone["reason"] == "too-long" and "4096" in stone["detail"]


def test_an_id_outside_the_vocabulary_is_never_sent(tmp_path: Path) -> None:
    root = make_root(
        tmp_path, {B4: [ids_prompt("bad", 20, 9_999_999), *(ids_prompt(n, 20, 100 + n) for n in range(5))]}
    )
    with stand_in() as engine:
        pid = engine.pid
        ran = run_here(make_options(root, engine.url))
        assert engine.pid == pid and engine.seen()["requests"] == 5
    assert ran.code == ExitCode.DONE
    [stone] = state_lines(root, "failed.jsonl")
    assert stone["sample_id"] == "bad" and stone["reason"] == "outside-vocabulary"


def test_a_request_that_is_never_answered_is_ended_and_asked_again(tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 30})
    pace = replace(QUICK_PACE, watch=WatchPace(grace_s=0.5, patience=2.0))
    with stand_in() as engine:
        engine.fault("hang", count=1)
        ran = run_here(make_options(root, engine.url), pace)
        assert engine.seen()["running"] == [], "the one that hung was aborted by its name"
    assert ran.code == ExitCode.DONE
    assert len(answered_once(root, B4)) == 30
    assert progress(root)["errors"] == {"deadline": 1}


def test_an_engine_that_decodes_nothing_is_noticed(tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 30})
    watch = WatchPace(grace_s=60.0, quiet_s=0.2, look_every_s=0.1, stalled_s=0.5)
    with stand_in(request_tokens_s=1_000) as engine:

        def freeze() -> None:
            wait_until("answers", lambda: answered_at_least(root, B4, 8))
            engine.fault("hang", count=8)

        with meanwhile(freeze):
            ran = run_here(make_options(root, engine.url), replace(QUICK_PACE, watch=watch))
        assert engine.seen()["running"] == []
    assert ran.code == ExitCode.DONE
    assert len(answered_once(root, B4)) == 30
    assert "has decoded nothing for" in ran.log and progress(root)["errors"]["stalled"] > 0
    assert not state_lines(root, "failed.jsonl")


def test_a_foreign_abort_is_no_answer(tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 20})

    def abort_all() -> None:
        wait_until("requests", lambda: len(engine.seen()["running"]) >= 8)
        engine.ask("/abort_request", {"abort_all": True})

    with stand_in(**SLOW) as engine, meanwhile(abort_all):
        ran = run_here(make_options(root, engine.url))
    assert ran.code == ExitCode.DONE
    assert len(answered_once(root, B4)) == 20
    assert progress(root)["errors"]["aborted"] >= 1
    assert {record["finish_reason"] for record in records(root, B4)} <= {"stop", "length"}


def test_a_prompt_that_kills_the_engine_is_set_aside_and_no_innocent_is(tmp_path: Path) -> None:
    killer = ids_prompt("killer", 20, 777)
    root = make_root(tmp_path, {B4: [*(ids_prompt(n, 20, 100 + n) for n in range(20)), killer]})

    def keep_up() -> None:
        for _ in range(3):
            engine.wait_dead()
            engine.start()
            engine.fault("crash", token=777, count=-1)

    with stand_in(**SLOW) as engine:
        engine.fault("crash", token=777, count=-1)
        with meanwhile(keep_up):
            ran = run_here(make_options(root, engine.url))
    assert ran.code == ExitCode.DONE, ran.log
    assert answered_once(root, B4) == {str(n) for n in range(20)}
    aside: dict[str, str] = {}
    for line in state_lines(root, "failed.jsonl"):
        aside.pop(line["sample_id"], None)
        if not line.get("lifted"):
            aside[line["sample_id"]] = line["reason"]
    assert aside == {"killer": "engine-crash-suspect"}


def test_the_next_dataset_fills_the_places_of_one_that_drains(tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 100, B5: 100})
    full: list[bool] = []

    def look() -> None:
        wait_until("the second dataset", lambda: B5 in progress(root).get("in_work", []))
        told = progress(root)
        full.append(told["places"] == told["concurrency"])

    with stand_in(**SLOW) as engine, meanwhile(look):
        ran = run_here(make_options(root, engine.url, budget=4_000))
    assert ran.code == ExitCode.DONE
    assert full == [True]


def test_a_queue_that_is_full_is_no_reason_to_give_up(tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 30})
    pace = replace(QUICK_PACE, gate=GatePace(down_s=0.05, loading_s=5.0, look_limit_s=5.0))
    with stand_in(max_running=2, max_queued=2, request_tokens_s=500) as engine:
        ran = run_here(make_options(root, engine.url), pace)
    assert ran.code == ExitCode.DONE
    assert len(answered_once(root, B4)) == 30
    assert progress(root)["errors"].get("engine-busy", 0) > 0


def test_two_engines_of_one_test_do_not_share_a_port() -> None:
    with stand_in() as one, stand_in() as other:
        assert isinstance(one, StandIn) and one.url != other.url
