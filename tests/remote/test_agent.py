"""The agent as a whole program on a real tree: what it shows, what it refuses, how it ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from remote import protocol
from remote.errors import OperatorError
from remote.layout import RESPONSES
from remote.options import Budget, Options
from tests.support.agent import LIMIT_S, REPO, AgentProcess, agent, append_line
from tests.support.tree import SMALL_BUDGET, make_tree, response

CHANGING = {
    "launch": {"options": {}, "by": "a@b"},
    "stop": {"mode": "now", "by": "a@b"},
    "kill_stray": {"identity": {"pid": 1}, "by": "a@b"},
    "control": {"paused": True, "by": "a@b"},
    "retokenize": {"options": {}, "by": "a@b"},
    "note": {"text": "hello", "by": "a@b"},
    "hold": {"reason": "no", "by": "a@b"},
    "ack": {"key": "engine", "by": "a@b"},
    "audit": {"add": {"action": "x", "outcome": "y", "by": "a@b"}},
}


@pytest.fixture(scope="module")
def shared_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree that no test here changes."""
    root = tmp_path_factory.mktemp("shared") / "prepared"
    root.mkdir()
    return make_tree(root, "mid")


@pytest.fixture(autouse=True)
def private_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scanner's memory of these trees goes to a folder that ends with the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def options_for(root: Path, **more: object) -> Options:
    return Options(root=str(root), token_budget=Budget(SMALL_BUDGET), engine_url=_closed_url(), **more)  # type: ignore[arg-type]


def _closed_url() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def test_it_shows_the_eight_datasets_and_what_a_restart_would_do(shared_tree: Path) -> None:
    with agent(options_for(shared_tree)) as it:
        rows = it.snapshot["datasets"]
        assert min(rows, key=lambda name: rows[name]["order"]) == "B1_glaive"
        assert len(rows) == 8
        assert rows["B1_glaive"]["responses"] == 100 and rows["B1_glaive"]["tokenized"] == 98
        assert rows["B1_glaive"]["inference"] == {"decision": "skip", "reason": "budget-met"}
        assert rows["B3_magicoder"]["inference"] == {"decision": "resume", "reason": "partial"}
        assert rows["B4_mixturethoughts"]["state"] == "waiting"
        assert it.snapshot["generator"]["verdict"] == "never-started"
        assert it.snapshot["engine"]["health"] == "down"
        assert it.snapshot["disk"]["free_bytes"] > 0
        assert not it.snapshot.get("problems")


def test_looking_writes_nothing_under_the_root(shared_tree: Path) -> None:
    before = _picture(shared_tree)
    with agent(options_for(shared_tree)) as it:
        it.call("plan", {"options": options_for(shared_tree).to_json()})
        it.call("dataset", {"folder": "B2_opencodeinstruct"})
        it.call("log", {})
    assert _picture(shared_tree) == before


def _picture(root: Path) -> dict[str, tuple[int, int]]:
    return {str(path.relative_to(root)): (path.stat().st_mtime_ns, path.stat().st_size) for path in root.rglob("*")}


def test_an_answer_costs_a_patch_of_its_own_dataset_and_few_bytes(tree: Path) -> None:
    with agent(options_for(tree)) as it:
        answers = tree / "B3_magicoder" / RESPONSES
        append_line(answers, response("B3-000010", 50))
        it.until(lambda snapshot: snapshot["datasets"]["B3_magicoder"]["prompts_left"] == 57)
        first = len(it.notifications("patch"))
        append_line(answers, response("B3-000011", 50))
        it.until(lambda snapshot: snapshot["datasets"]["B3_magicoder"]["prompts_left"] == 56)
        lines = it.notifications("patch")
        patches = [json.loads(line)["params"][2] for line in lines]
        assert {name for patch in patches for name in patch.get("datasets", {})} == {"B3_magicoder"}
        assert all(len(line) <= 256 for line in lines[first:])
        ticks = it.wait(lambda: it.notifications("tick"))
        assert all(len(line) <= 64 for line in ticks)


def test_patches_follow_one_another_and_resync_gives_the_whole(tree: Path) -> None:
    with agent(options_for(tree)) as it:
        for number in range(3):
            append_line(tree / "B4_mixturethoughts" / RESPONSES, response(f"B4-{number:06}", 10))
            it.until(
                lambda snapshot, wanted=number + 1: snapshot["datasets"]["B4_mixturethoughts"]["responses"] == wanted
            )
        numbers = [json.loads(line)["params"][0] for line in it.notifications("patch")]
        assert numbers == list(range(2, 2 + len(numbers)))
        held, it.snapshot = it.snapshot, None
        it.call("resync")
        whole = it.until(lambda snapshot: True)
        assert whole["datasets"].keys() == held["datasets"].keys()
        assert whole["datasets"]["B1_glaive"] == held["datasets"]["B1_glaive"]
        assert whole["datasets"]["B4_mixturethoughts"]["responses"] == 3


def test_a_request_that_takes_long_does_not_hold_up_a_ping(shared_tree: Path) -> None:
    with agent(options_for(shared_tree)) as it:
        slow = it.ask("preflight", {"options": options_for(shared_tree).to_json()})
        it.call("ping")
        order = [json.loads(line).get("id") for line in it.lines]
        assert slow not in order, "the ping was answered first"
        checks = it.answer(slow, 60).result
        assert {check["check"] for check in checks} >= {"python", "engine", "disk", "root", "lock"}


def test_read_only_refuses_every_change_and_writes_nothing(tree: Path) -> None:
    before = _picture(tree)
    with agent(options_for(tree, read_only=True)) as it:
        for method, params in CHANGING.items():
            with pytest.raises(OperatorError) as caught:
                it.call(method, params)
            assert caught.value.code == "read-only", method
        # A later console cannot lift it by asking nicely.
        it.call("options", {"options": options_for(tree).to_json()})
        with pytest.raises(OperatorError) as caught:
            it.call("note", CHANGING["note"])
        assert caught.value.code == "read-only"
    assert _picture(tree) == before


def test_bad_requests_are_answered_and_the_next_one_is_served(shared_tree: Path) -> None:
    with agent(options_for(shared_tree)) as it:
        for line in (b"nonsense\n", b"[1]\n", b'{"id":"a","method":5}\n', b"\xff\xfe\n", b"{" * 100_000 + b"\n"):
            it.send(line)
        with pytest.raises(OperatorError, match="knows no method"):
            it.call("format_the_disk")
        with pytest.raises(OperatorError, match="folder"):
            it.call("dataset", {"folder": 5})
        with pytest.raises(OperatorError, match="no dataset"):
            it.call("dataset", {"folder": "../../etc"})
        with pytest.raises(OperatorError, match="root"):
            it.call("plan", {"options": {"root": 5}})
        assert it.call("ping")["at"] == pytest.approx(time.time(), abs=60)


def test_it_ends_when_the_console_closes_the_link(shared_tree: Path) -> None:
    with agent(options_for(shared_tree)) as it:
        it.process.stdin.close()
        assert it.ended() == 0


def test_it_ends_when_the_console_says_nothing(shared_tree: Path) -> None:
    with agent(options_for(shared_tree), None, "--silence-s", "1.5") as it:
        assert it.ended() == 0
        assert b"said nothing" in it.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_it_ends_on_a_signal(shared_tree: Path, number: signal.Signals) -> None:
    with agent(options_for(shared_tree)) as it:
        it.process.send_signal(number)
        assert it.ended() == 0


def test_a_frozen_console_does_not_keep_it_alive_or_make_it_grow(shared_tree: Path) -> None:
    read_end, write_end = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-B", "-m", "remote", "agent", "--marker", "m", "--silence-s", "3"],
            stdin=subprocess.PIPE,
            stdout=write_end,
            stderr=subprocess.PIPE,
            cwd=REPO,
        )
        os.close(write_end)
        write_end = -1
        options = options_for(shared_tree).to_json()
        process.stdin.write(protocol.request(1, "hello", {"options": options}))
        for number in range(200):
            process.stdin.write(protocol.request(number + 2, "dataset", {"folder": "B1_glaive"}))
        process.stdin.flush()
        # Nothing is ever read: the pipe is full after a few answers, and it ends by itself all the same.
        assert process.wait(LIMIT_S) == 0
        process.stdin.close()
        process.stderr.close()
    finally:
        os.close(read_end)
        if write_end >= 0:
            os.close(write_end)


def test_a_missing_root_is_said_and_noticed_when_it_comes(tmp_path: Path) -> None:
    root = tmp_path / "later"
    with agent(options_for(root)) as it:
        assert any("later" in problem for problem in it.snapshot["problems"])
        assert it.snapshot["datasets"]["B1_glaive"].get("state") is None
        assert it.snapshot["host"]["hostname"], "the rest is there"
        with pytest.raises(OperatorError) as caught:
            it.call("plan", {"options": options_for(root).to_json()})
        assert caught.value.code == "no-root"
        root.mkdir()
        make_tree(root, "mid")
        it.until(lambda snapshot: snapshot["datasets"]["B1_glaive"].get("responses") == 100)


def test_damaged_small_files_blank_nothing_else(tree: Path) -> None:
    state = tree / ".eagle3"
    state.mkdir()
    for name in ("run.json", "exit.json", "control.json", "hold.json", "acks.json", "progress.json"):
        (state / name).write_bytes(b"\x00\xff{" * 5)
    for name in ("audit.jsonl", "history.jsonl", "failed.jsonl", "runs.jsonl"):
        (state / name).write_bytes(b'{"at": 1}\nnot json\n\xff\xff\n{"at":')
    (state / "run.log").write_bytes(b"\x1b[31mred\x1b[0m \xff\n" * 3)
    with agent(options_for(tree)) as it:
        assert it.snapshot["datasets"]["B1_glaive"]["responses"] == 100
        assert it.snapshot["datasets"]["B1_glaive"]["inference"]["decision"] == "skip"
        assert it.snapshot["generator"]["verdict"] == "unknown"
        assert it.snapshot["hold"]["reason"], "a damaged hold still holds"
        it.call("plan", {"options": options_for(tree).to_json()})
        assert it.call("history", {"since": 0})
        assert all(b"\x1b" not in line for line in it.lines)


def test_hostile_names_reach_nobody_raw(tree: Path) -> None:
    evil = tree / "C9_\x1b[2J\u202eevil"
    evil.mkdir()
    (evil / "prompts.jsonl").write_text('{"sample_id": "\\u001b[31m", "prompt": "x"}\n{bad \x1b[0m}\n')
    with agent(options_for(tree)) as it:
        it.until(lambda snapshot: len(snapshot["datasets"]) == 9)
        text = b"".join(it.lines).decode()
        assert "\x1b" not in text and "\\u001b" not in text and "\u202e" not in text


def test_it_keeps_its_memory_for_the_next_agent(tree: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir(exist_ok=True)
    for _ in range(2):
        with agent(options_for(tree), {"XDG_CACHE_HOME": str(cache)}) as it:
            assert it.snapshot["datasets"]["B2_opencodeinstruct"]["responses"] == 29
            it.call("bye")
            assert it.ended() == 0
    kept = list(cache.rglob("index-*.json"))
    assert len(kept) == 1 and not (tree / ".eagle3").exists()


def _pythons() -> dict[str, str]:
    """The oldest and the newest Python of this machine that the agent is made for, and at least our own."""
    found = {f"{sys.version_info[0]}.{sys.version_info[1]}": sys.executable}
    for version in ("3.10", "3.13"):
        installed = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python3"))
        path = str(installed[-1]) if installed else shutil.which(f"python{version}")
        if path is not None:
            found[version] = path
    return found


@pytest.mark.parametrize(("version", "python"), _pythons().items())
def test_it_runs_with_every_python_there_is(shared_tree: Path, version: str, python: str) -> None:
    with agent(options_for(shared_tree), python=python) as it:
        assert it.snapshot["datasets"]["B1_glaive"]["responses"] == 100
        assert it.snapshot["agent"]["python"].startswith(version)


def test_requests_before_hello_are_refused_kindly() -> None:
    it = AgentProcess()
    try:
        it.ready()
        with pytest.raises(OperatorError) as caught:
            it.call("plan", {"options": {}})
        assert caught.value.code == "no-hello"
    finally:
        it.close()
