"""The real generator under its supervisor, against the stand-in engine: nothing of a run stays behind, on the engine neither."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote.detached import program
from remote.errors import OperatorError
from remote.handshake import API_KEY
from remote.identity import alive, send
from remote.launch import Launched, Order, launch
from remote.layout import Layout
from remote.lock import is_held
from remote.status import generator_status
from remote.stop import stop_run
from tests.support.engine import StandIn, stand_in, wait_until
from tests.support.generating import answered_once, make_options, make_root, progress, records
from tests.support.runs import BY, LIMIT_S, end_all, generator_of, kill_and_wait, supervisor_of

B4 = "B4_mixturethoughts"
KEY = "sk-the-engine-wants-one"


@pytest.fixture
def engine() -> Iterator[StandIn]:
    """About a third of a second an answer, eight at once; it wants a key."""
    with stand_in(request_tokens_s=300, api_key=KEY) as engine:
        yield engine


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    made = Layout(make_root(tmp_path / "prepared", {B4: 500}))
    yield made
    end_all(made)


def running(layout: Layout, engine: StandIn, **changes: object) -> Launched:
    """A launched generator with answers on disk and its places full."""
    command = (sys.executable, "-B", program(layout))
    options = make_options(layout.root, engine.url, **changes)
    launched = launch(layout, Order(options, command, BY, {API_KEY: KEY}, LIMIT_S))
    wait_until("answers", lambda: len(records(layout.root, B4)) >= 5)
    wait_until("full places", lambda: len(engine.seen()["running"]) >= 8)
    return launched


def test_a_drain_ends_it_and_keeps_all_that_was_sent(layout: Layout, engine: StandIn) -> None:
    launched = running(layout, engine)
    status = generator_status(layout)
    assert (status.verdict, status.release) == ("running", launched_release(layout))
    wait_until("its own count", lambda: generator_status(layout).in_flight)
    stopped = stop_run(layout, "drain", 20, launched.identity, BY)
    assert stopped.done and stopped.exit is not None
    assert (stopped.exit["code"], stopped.exit["reason"]) == (3, "stopped")
    seen = engine.seen()
    assert seen["running"] == [] and len(answered_once(layout.root, B4)) == seen["requests"]
    assert not is_held(layout) and KEY not in layout.run_log.read_text()


def launched_release(layout: Layout) -> str:
    """The release that run.json names."""
    found = json.loads(layout.run_json.read_text())["release"]
    assert isinstance(found, str)
    return found


def test_a_stop_now_says_what_it_cost(layout: Layout, engine: StandIn) -> None:
    launched = running(layout, engine)
    engine.fault("hang", count=-1)
    wait_until("the estimate", lambda: progress(layout.root).get("lost_if_stopped_tokens", 0) > 0)
    stopped = stop_run(layout, "now", 0, launched.identity, BY)
    assert stopped.done and stopped.lost_tokens is not None and stopped.lost_tokens > 0
    assert engine.seen()["running"] == []
    answered_once(layout.root, B4)


def test_after_a_sigkill_the_supervisor_ends_what_the_engine_still_decodes(layout: Layout, engine: StandIn) -> None:
    launched = running(layout, engine)
    engine.fault("hang", count=-1)
    assert launched.identity is not None
    send(launched.identity, signal.SIGKILL)
    wait_until("the exit record", lambda: generator_status(layout).exit)
    wait_until("the free lock", lambda: not is_held(layout))
    assert engine.seen()["running"] == [], "the lock is given up when the engine is clear"
    answered_once(layout.root, B4)


def test_without_a_supervisor_a_stop_clears_the_engine_too(layout: Layout, engine: StandIn) -> None:
    launched = running(layout, engine)
    kill_and_wait(supervisor_of(layout))
    before = len(records(layout.root, B4))
    wait_until("more answers", lambda: len(records(layout.root, B4)) > before)
    engine.fault("hang", count=-1)
    stopped = stop_run(layout, "force", 0, launched.identity, BY)
    assert stopped.done and not alive(generator_of(layout))
    assert engine.seen()["running"] == [], "with the key that only the dead one's environment held"


def test_what_it_cannot_start_with_is_its_own_words(layout: Layout, engine: StandIn) -> None:
    with pytest.raises(OperatorError) as refused:
        running(layout, engine, model_path="/nowhere/model")
    assert "/nowhere/model" in str(refused.value) and "Traceback" not in str(refused.value)
    assert refused.value.code not in ("not-ready", "launch-failed"), "the generator's own error, not a guess at it"
    wait_until("the free lock", lambda: not is_held(layout))
