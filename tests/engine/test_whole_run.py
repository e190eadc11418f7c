"""Whole runs against a stand-in engine: to the budget, resumed, capped, in order, in every emulated version."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote.exitcodes import ExitCode
from remote.options import Budget
from tests.support.engine import stand_in, wait_until
from tests.support.generating import (
    answered_once,
    make_options,
    make_root,
    meanwhile,
    progress,
    records,
    run_here,
    state_lines,
    tokens,
)

B4, B5 = "B4_mixturethoughts", "B5_openthoughts"


def test_every_dataset_ends_at_its_own_budget(tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 200, B5: 200})
    with stand_in() as engine:
        ran = run_here(make_options(root, engine.url, budget=Budget(5_000, {"B5": 9_000})))
    assert ran.code == ExitCode.DONE, ran.log
    for folder, budget in ((B4, 5_000), (B5, 9_000)):
        assert budget <= tokens(root, folder) < budget + 1_500
        answered_once(root, folder)
    assert "budget of 5.00 k met" in ran.log and "budget of 9.00 k met" in ran.log


def test_a_dataset_without_enough_prompts_says_how_far_short_it_is(tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 10})
    with stand_in() as engine:
        ran = run_here(make_options(root, engine.url, budget=1_000_000))
    assert ran.code == ExitCode.DONE
    assert len(answered_once(root, B4)) == 10
    assert "short of its budget: no prompt is left" in ran.log


def test_a_second_run_answers_what_is_left_and_nothing_twice(tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 60})
    with stand_in() as engine:
        run_here(make_options(root, engine.url, max_samples=20), run_id="one")
        assert len(answered_once(root, B4)) == 20
        before = (root / B4 / "raw_responses.jsonl").read_bytes()
        ran = run_here(make_options(root, engine.url), run_id="two")
    assert ran.code == ExitCode.DONE
    assert len(answered_once(root, B4)) == 60
    assert (root / B4 / "raw_responses.jsonl").read_bytes().startswith(before)


def test_a_prompts_file_that_becomes_unreadable_stops_its_dataset_alone(tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 400, B5: 30})
    prompts = root / B4 / "prompts.jsonl"

    def spoil() -> None:
        wait_until("answers", lambda: len(records(root, B4)) >= 5)
        prompts.write_bytes(b"")

    with stand_in(request_tokens_s=1_000) as engine, meanwhile(spoil):
        ran = run_here(make_options(root, engine.url, shuffle=3))
    assert ran.code == ExitCode.FAILED and "B4 stopped:" in ran.log
    assert len(answered_once(root, B5)) == 30 and 5 <= len(answered_once(root, B4)) < 400


def test_a_shuffled_run_keeps_its_order_when_resumed(tmp_path: Path) -> None:
    root, whole = make_root(tmp_path / "parts", {B4: 40}), make_root(tmp_path / "whole", {B4: 40})
    with stand_in() as engine:
        for cap in (10, 25, 40):
            run_here(make_options(root, engine.url, shuffle=7, concurrency=1, max_samples=cap))
        run_here(make_options(whole, engine.url, shuffle=7, concurrency=1))
    order = [record["sample_id"] for record in records(root, B4)]
    assert order == [record["sample_id"] for record in records(whole, B4)]
    assert order != sorted(order)


def test_records_have_five_keys_and_their_provenance(tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 5})
    with stand_in() as engine:
        run_here(make_options(root, engine.url), run_id="run-7")
    for record in records(root, B4):
        assert list(record) == ["sample_id", "output_ids", "prompt_tokens", "completion_tokens", "finish_reason"]
        assert record["completion_tokens"] == len(record["output_ids"])
        assert record["prompt_tokens"] == 3
    answers = state_lines(root, f"answers/{B4}.jsonl")
    assert {answer["sample_id"] for answer in answers} == answered_once(root, B4)
    assert all(answer["run"] == "run-7" and len(answer["prompt_digest"]) == 32 for answer in answers)
    assert all(answer["weight_version"] == "default" for answer in answers)


@pytest.mark.parametrize("version", ["0.5.3", "0.5.9", "0.5.23"])
def test_every_emulated_version_gives_the_same_answers(version: str, tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 30})
    with stand_in(emulate=version) as engine:
        ran = run_here(make_options(root, engine.url))
    assert ran.code == ExitCode.DONE, ran.log
    assert len(answered_once(root, B4)) == 30
    assert all(record["output_ids"][:3] != [20, 100, 30] for record in records(root, B4))
    assert ("prompt's last ids, which were taken off" in ran.log) == (version == "0.5.3")


def test_every_sampling_parameter_is_sent_and_recorded(tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 2})
    with stand_in() as engine:
        run_here(make_options(root, engine.url, sampling={"temperature": 0.6}, max_new_tokens=77))
        sent = engine.seen()["sampling"]
    assert sent["temperature"] == 0.6 and sent["top_p"] == 1.0 and sent["top_k"] == -1
    assert sent["max_new_tokens"] == 77
    assert sent["stop_token_ids"], "the model's ends of sequence go with every request"
    start = next(line for line in state_lines(root, "runs.jsonl") if line["event"] == "start")
    assert start["sampling"]["values"] == {"temperature": 0.6}
    assert start["sampling"]["source"] == "--sampling"
    assert start["sampling"]["sent"] == {key: value for key, value in sent.items() if key != "max_new_tokens"}


def test_runs_name_the_bytes_that_are_their_own(tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 20})
    path = root / B4 / "raw_responses.jsonl"
    with stand_in() as engine:
        run_here(make_options(root, engine.url, max_samples=5), run_id="one")
        size = path.stat().st_size
        run_here(make_options(root, engine.url), run_id="two")
    lines = {(line["run"], line["event"]): line for line in state_lines(root, "runs.jsonl")}
    assert lines["one", "start"]["starts"] == {B4: 0} and lines["one", "end"]["ends"] == {B4: size}
    assert lines["two", "start"]["starts"] == {B4: size} and lines["two", "end"]["ends"] == {B4: path.stat().st_size}
    assert lines["two", "engine"]["engine"]["version"] == "0.5.9"


def test_rids_are_fresh_and_none_begins_another(tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 40})
    with stand_in() as engine:
        engine.fault("status", status=500, count=10)
        run_here(make_options(root, engine.url), run_id="r1")
        rids = engine.seen()["rids"]
    assert len(rids) == len(set(rids)) == 50
    assert all(rid.startswith("e3.r1.") and rid.endswith(".") for rid in rids)
    assert not any(one != other and other.startswith(one) for one in rids for other in rids)


def test_progress_is_whole_at_the_end(tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 20})
    with stand_in() as engine:
        run_here(make_options(root, engine.url), run_id="r1")
    told = progress(root)
    assert (
        told["run"] == "r1" and told["in_flight"] == 0 and told["answers"] == 20 and told["engine_state"] == "healthy"
    )
    row = told["datasets"][B4]
    assert row["answered"] == 20 and row["tokens"] == tokens(root, B4) and row["finished"]
