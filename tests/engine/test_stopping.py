"""How a run ends when it is told to, or is killed: real signals, real processes, and the engine's own list of requests."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote.control import write_control
from remote.exitcodes import ExitCode
from remote.inflight import abort_leftovers, read_inflight
from remote.layout import Layout
from remote.options import Budget
from remote.runfile import write_stop
from tests.support.engine import StandIn, stand_in, wait_until
from tests.support.generating import (
    ForkedRun,
    GeneratorProcess,
    answered_once,
    make_options,
    make_root,
    meanwhile,
    progress,
    records,
    run_here,
    tokens,
)

B4, B5 = "B4_mixturethoughts", "B5_openthoughts"


@pytest.fixture
def engine() -> Iterator[StandIn]:
    """About a third of a second an answer, eight at once."""
    with stand_in(request_tokens_s=300) as engine:
        yield engine


def started(root: Path, engine: StandIn, log: Path, **changes: object) -> ForkedRun:
    """A generator that has answered a few and has the places full."""
    generator = ForkedRun(make_options(root, engine.url, **changes), log)
    wait_until("answers", lambda: len(records(root, B4)) >= 5 or generator.ended)
    wait_until("full places", lambda: len(engine.seen()["running"]) >= 8 or generator.ended)
    assert not generator.ended, generator.said()
    return generator


def test_sigterm_lets_what_is_in_flight_finish(tmp_path: Path, engine: StandIn) -> None:
    root = make_root(tmp_path, {B4: 500})
    generator = started(root, engine, tmp_path / "log")
    try:
        generator.signal(signal.SIGTERM)
        wait_until("the drain", lambda: "may finish within" in generator.said())
        in_flight = engine.seen()["running"]
        assert generator.wait() == ExitCode.STOPPED, generator.said()
    finally:
        generator.close()
    seen = engine.seen()
    assert seen["running"] == [] and seen["aborts"] == 0
    assert set(in_flight) <= set(seen["rids"])
    assert len(answered_once(root, B4)) == seen["requests"], "every request that was sent was kept"


def test_a_drain_that_lasts_too_long_is_cut_and_aborted_by_name(tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 100})
    with stand_in(request_tokens_s=300) as engine:
        generator = started(root, engine, tmp_path / "log", drain_s=0.3)
        try:
            engine.fault("hang", count=-1)
            wait_until("only requests that hang", lambda: progress(root).get("in_flight") == 8)
            wait_until("many rids", lambda: len(engine.seen()["running"]) == 8)
            generator.signal(signal.SIGTERM)
            assert generator.wait() == ExitCode.STOPPED, generator.said()
        finally:
            generator.close()
        assert engine.seen()["running"] == []
    assert "cancelled and aborted" in generator.said() and "the engine now runs 0 requests" in generator.said()
    answered_once(root, B4)


def test_a_second_signal_stops_now(tmp_path: Path, engine: StandIn) -> None:
    root = make_root(tmp_path, {B4: 500})
    generator = started(root, engine, tmp_path / "log", drain_s=600.0)
    try:
        engine.fault("hang", count=-1)
        wait_until("one that hangs", lambda: len(engine.seen()["running"]) == 8)
        generator.signal(signal.SIGTERM)
        wait_until("the drain", lambda: "may finish within" in generator.said())
        generator.signal(signal.SIGINT)
        assert generator.wait() == ExitCode.STOPPED, generator.said()
    finally:
        generator.close()
    assert engine.seen()["running"] == []


def test_stop_json_says_now(tmp_path: Path, engine: StandIn) -> None:
    root = make_root(tmp_path, {B4: 500})
    generator = started(root, engine, tmp_path / "log", drain_s=600.0)
    try:
        engine.fault("hang", count=-1)
        write_stop(Layout(root), progress(root)["run"], "now", 0.0, "somebody@desk")
        generator.signal(signal.SIGTERM)
        assert generator.wait() == ExitCode.STOPPED, generator.said()
    finally:
        generator.close()
    assert engine.seen()["running"] == []


def test_a_stop_while_the_engine_is_away_does_not_wait_for_it(tmp_path: Path, engine: StandIn) -> None:
    root = make_root(tmp_path, {B4: 500})
    generator = started(root, engine, tmp_path / "log", drain_s=600.0)
    try:
        engine.kill()
        wait_until("the run to notice", lambda: progress(root).get("engine_state") == "down")
        generator.signal(signal.SIGTERM)
        assert generator.wait() == ExitCode.STOPPED, generator.said()
    finally:
        generator.close()
    answered_once(root, B4)


def test_a_drain_ends_when_the_engine_dies_in_it(tmp_path: Path, engine: StandIn) -> None:
    root = make_root(tmp_path, {B4: 500})
    generator = started(root, engine, tmp_path / "log", drain_s=600.0)
    try:
        engine.fault("hang", count=-1)
        wait_until("only requests that hang", lambda: len(engine.seen()["running"]) == 8)
        generator.signal(signal.SIGTERM)
        wait_until("the drain", lambda: "may finish within" in generator.said())
        engine.kill()
        assert generator.wait() == ExitCode.STOPPED, generator.said()
    finally:
        generator.close()
    answered_once(root, B4)


def test_after_a_sigkill_nothing_is_lost_or_doubled_and_orphans_are_aborted(tmp_path: Path, engine: StandIn) -> None:
    root = make_root(tmp_path, {B4: 60})
    generator = started(root, engine, tmp_path / "log")
    try:
        engine.fault("hang", count=8)
        generator.signal(signal.SIGKILL)
        generator.wait()
    finally:
        generator.close()
    before = answered_once(root, B4)
    engine.fault("clear")
    orphans = set(engine.seen()["running"])
    assert orphans <= set(read_inflight(Layout(root)).open_rids), "noted before they were sent"
    ran = run_here(make_options(root, engine.url), run_id="next")
    assert ran.code == ExitCode.DONE, ran.log
    assert engine.seen()["running"] == []
    assert not orphans or "aborted" in ran.log
    assert before <= answered_once(root, B4) and len(answered_once(root, B4)) == 60


def test_leftovers_are_aborted_one_by_one_and_others_are_left_alone(tmp_path: Path, engine: StandIn) -> None:
    root = make_root(tmp_path, {B4: 60})
    generator = started(root, engine, tmp_path / "log")
    generator.signal(signal.SIGKILL)
    generator.close()
    engine.fault("hang")
    with meanwhile(lambda: engine.ask("/generate", {"rid": "foreign", "input_ids": [5, 6]})):
        wait_until("the foreign request", lambda: "foreign" in engine.seen()["running"])
        found = abort_leftovers(Layout(root))
        assert found.found == found.aborted > 0
        assert engine.seen()["running"] == ["foreign"]
        assert abort_leftovers(Layout(root)).found == 0, "their end is noted"
        engine.ask("/abort_request", {"rid": "foreign"})


def test_a_second_generator_is_refused_and_told_who_holds_the_lock(tmp_path: Path, engine: StandIn) -> None:
    root = make_root(tmp_path, {B4: 500})
    first = started(root, engine, tmp_path / "log")
    second = ForkedRun(make_options(root, engine.url), tmp_path / "second")
    try:
        assert second.wait() == ExitCode.FAILED
        assert str(first.pid) in second.said()
    finally:
        second.close()
        first.close()


def test_the_key_is_in_no_command_line_and_no_child(tmp_path: Path) -> None:
    root = make_root(tmp_path, {B4: 500})
    with stand_in(request_tokens_s=300, api_key="sk-very-secret") as engine:
        options = make_options(root, engine.url)
        generator = GeneratorProcess(options, tmp_path / "log", {"EAGLE3_API_KEY": "sk-very-secret"})
        try:
            wait_until("answers", lambda: len(records(root, B4)) >= 3)
            command = Path(f"/proc/{generator.pid}/cmdline").read_bytes()
        finally:
            generator.close()
    assert b"sk-" not in command and "sk-" not in generator.said()


def test_control_changes_a_running_generator(tmp_path: Path, engine: StandIn) -> None:
    root = make_root(tmp_path, {B4: 60, B5: 60})
    layout = Layout(root)
    paused_at: list[int] = []

    def steer() -> None:
        wait_until("answers", lambda: len(records(root, B4)) >= 5)
        write_control(layout, paused=True, by="ann", run="steered")
        wait_until("the pause", lambda: progress(root).get("paused") and progress(root)["in_flight"] == 0)
        paused_at.append(engine.seen()["requests"])
        write_control(layout, token_budget=Budget(2_000, {"B5": 3_000}), by="ann", run="steered")
        write_control(layout, paused=False, by="ann", run="steered")

    with meanwhile(steer):
        ran = run_here(make_options(root, engine.url, budget=1_000_000), run_id="steered")
    assert ran.code == ExitCode.DONE, ran.log
    assert "paused by ann" in ran.log and "resumed by ann" in ran.log and "budget changed to 2k,B5=3k by ann" in ran.log
    assert engine.seen()["requests"] > paused_at[0]
    assert len(answered_once(root, B4)) < 60
    assert 3_000 <= tokens(root, B5) < 5_000


def test_a_raised_budget_reaches_a_dataset_that_had_met_its_own(tmp_path: Path, engine: StandIn) -> None:
    root = make_root(tmp_path, {B4: 60, B5: 60})
    run_here(make_options(root, engine.url, budget=1_000, datasets=("B4",)), run_id="first")
    had = len(answered_once(root, B4))

    def raise_it() -> None:
        wait_until("answers", lambda: len(records(root, B5)) >= 3)
        assert len(records(root, B4)) == had, "nothing is done beyond the budget"
        write_control(Layout(root), token_budget=Budget(3_000), run="second")

    with meanwhile(raise_it):
        ran = run_here(make_options(root, engine.url, budget=Budget(1_000, {"B5": 5_000})), run_id="second")
    assert ran.code == ExitCode.DONE, ran.log
    assert tokens(root, B4) >= 3_000 and tokens(root, B5) >= 3_000


def test_a_damaged_control_file_changes_nothing(tmp_path: Path, engine: StandIn) -> None:
    root = make_root(tmp_path, {B4: 20})

    def damage() -> None:
        wait_until("answers", lambda: len(records(root, B4)) >= 2)
        Layout(root).control_json.write_text('{"token_budget": {"default": "all"}}')

    with meanwhile(damage):
        ran = run_here(make_options(root, engine.url))
    assert ran.code == ExitCode.DONE
    assert "stays in force" in ran.log
    assert len(answered_once(root, B4)) == 20


def test_what_was_asked_of_an_earlier_run_does_not_hold_for_the_next(tmp_path: Path, engine: StandIn) -> None:
    root = make_root(tmp_path, {B4: 10})
    Layout(root).make_state()
    write_control(Layout(root), paused=True, token_budget=Budget(1), run="an-earlier-one")
    ran = run_here(make_options(root, engine.url), run_id="this-one")
    assert ran.code == ExitCode.DONE and len(answered_once(root, B4)) == 10
    assert json.loads(Layout(root).control_json.read_bytes())["run"] == "this-one"
