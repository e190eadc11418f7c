"""One part of the container that hangs, lies or is full takes nothing else with it."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote.layout import RESPONSES
from remote.options import Budget, Options
from remote.outbox import Outbox
from remote.watch import Watch
from tests.support.agent import agent, append_line
from tests.support.tree import SMALL_BUDGET, response


@pytest.fixture
def mute_engine() -> Iterator[str]:
    """A port that takes connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(50)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def options_for(root: Path, engine_url: str = "http://127.0.0.1:9") -> Options:
    return Options(root=str(root), token_budget=Budget(SMALL_BUDGET), engine_url=engine_url)


def test_an_engine_that_never_answers_holds_up_nothing(tree: Path, mute_engine: str) -> None:
    with agent() as it:
        it.call("hello", {"options": options_for(tree, mute_engine).to_json()})
        it.until(lambda snapshot: set(snapshot["pending"]) <= {"engine health", "engine model", "engine load"})
        assert it.snapshot["engine"]["health"] == "unknown"
        assert it.snapshot["datasets"]["B1_glaive"]["inference"]["decision"] == "skip"
        append_line(tree / "B4_mixturethoughts" / RESPONSES, response("B4-000001", 5))
        it.until(lambda snapshot: snapshot["datasets"]["B4_mixturethoughts"]["responses"] == 1)
        it.call("ping")
        it.process.stdin.close()
        assert it.ended() == 0, "nor its end"


def test_a_file_that_hangs_is_named_and_the_datasets_are_shown(tree: Path) -> None:
    (tree / ".eagle3").mkdir()
    os.mkfifo(tree / ".eagle3" / "audit.jsonl")
    with agent() as it:
        it.call("hello", {"options": options_for(tree).to_json()})
        it.until(lambda snapshot: "audit" in snapshot.get("pending", []) and len(snapshot["pending"]) == 1)
        assert it.snapshot["datasets"]["B2_opencodeinstruct"]["responses"] == 29
        problem = it.until(lambda snapshot: snapshot.get("problems"))["problems"][0]
        assert problem.startswith("audit: not answered for")
        it.call("ping")
        it.call("bye")
        assert it.ended() == 0


@pytest.mark.parametrize("name", ["raw_responses.jsonl", "prompts.jsonl"])
def test_a_pipe_in_place_of_a_dataset_file_blanks_its_own_row_alone(tree: Path, name: str) -> None:
    path = tree / "B4_mixturethoughts" / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    with agent(options_for(tree)) as it:
        assert it.snapshot["datasets"]["B4_mixturethoughts"]["state"] == "faulty"
        assert it.snapshot["datasets"]["B1_glaive"]["state"] == "budget-met"


def test_what_nobody_reads_is_given_up_and_sending_never_blocks() -> None:
    read_end, write_end = os.pipe()
    dead: list[str] = []
    given_up = threading.Event()
    outbox = Outbox(write_end, lambda why: (dead.append(why), given_up.set()), patience_s=0.3)
    for _ in range(100):
        outbox.send(b"x" * 10_000 + b"\n")
    assert given_up.wait(20) and "taken nothing" in dead[0]
    outbox.send(b"more\n")
    assert outbox.idle, "nothing is kept for nobody"
    assert not outbox.finish(1.0)
    os.close(read_end)
    os.close(write_end)


def test_a_closed_pipe_is_told_at_once() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    given_up = threading.Event()
    outbox = Outbox(write_end, lambda why: given_up.set())
    outbox.send(b"x\n")
    assert given_up.wait(20)
    os.close(write_end)


def test_lines_arrive_whole_and_in_order_however_slowly_they_are_read() -> None:
    read_end, write_end = os.pipe()
    outbox = Outbox(write_end, lambda why: None)
    sent = [bytes([65 + n % 26]) * (n * 97 % 9000) + b"\n" for n in range(60)]
    for line in sent:
        outbox.send(line)
    got = b""
    while len(got) < sum(map(len, sent)):
        got += os.read(read_end, 777)
    assert got == b"".join(sent)
    assert outbox.finish(5.0)
    os.close(read_end)
    os.close(write_end)


def test_a_look_that_fails_leaves_nothing_known_and_one_sentence() -> None:
    looked = threading.Event()
    answers = iter([1, ValueError("\x1b[31mboom"), 2])

    def look() -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    watch = Watch("disk", look, 600, 5, looked.set)
    watch.start()
    said = []
    for _ in range(3):
        assert looked.wait(10)
        looked.clear()
        said.append((watch.value, watch.problem()))
        watch.nudge()
    assert said == [(1, ""), (None, "disk: ValueError: �[31mboom"), (2, "")]
    watch.stop()
    assert watch.wait_ended(5)
