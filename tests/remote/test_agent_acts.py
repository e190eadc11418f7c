"""What the agent does when it is told to: launch, control, stop, kill; with real processes, recorded in the audit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from remote.errors import OperatorError
from remote.identity import Identity, alive, identify
from remote.layout import RESPONSES, Layout
from remote.options import Budget, Options
from tests.support.agent import AgentProcess, agent
from tests.support.runs import fake_python
from tests.support.tree import SMALL_BUDGET

BY = "ann@laptop"
ACCEPTED = ("python", "imports", "tokenizer", "model", "engine", "disk")
"""The stand-in generator is no Python with libraries, and there is no engine."""


@pytest.fixture(autouse=True)
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))


def options_for(root: Path, *behaviour: str, **more: object) -> Options:
    return Options(
        root=str(root),
        token_budget=Budget(SMALL_BUDGET),
        engine_url="http://127.0.0.1:9",
        python=str(fake_python(root.parent, *behaviour)),
        accept=ACCEPTED,
        **more,  # type: ignore[arg-type]
    )


def launch(it: AgentProcess, options: Options, **more: object) -> dict[str, object]:
    return it.call("launch", {"options": options.to_json(), "by": BY, "plan": {"datasets": []}, **more}, 60)


def test_launch_control_and_stop_and_who_did_it(tree: Path) -> None:
    options = options_for(tree)
    layout = Layout(tree)
    with agent(options) as it:
        launched = launch(it, options, api_key="sk-very-secret")
        assert alive(Identity.from_json(launched["identity"]))
        seen = it.until(lambda snapshot: snapshot["generator"]["verdict"] == "running")
        assert seen["generator"]["pid"] == launched["pid"]
        assert seen["lock"]["held"] is True

        changed = it.call("control", {"token_budget": "20k", "paused": True, "by": BY})
        assert changed["token_budget"] == {"default": 20_000, "per": {}} and changed["paused"] is True
        assert it.until(lambda snapshot: snapshot["datasets"]["B4_mixturethoughts"]["budget"] == 20_000)

        stopped = it.call("stop", {"mode": "now", "identity": launched["identity"], "by": BY}, 60)
        assert stopped["left"] == [] and not alive(Identity.from_json(launched["identity"]))
        ended = it.until(lambda snapshot: snapshot["generator"]["verdict"] == "exited")
        assert ended["generator"]["exit"]["reason"] == "stopped"

        entries = it.call("audit", {"limit": 10})
        assert [entry["action"] for entry in entries] == ["stop-now", "control", "launch"]
        assert all(entry["who"] == {"user": "ann", "host": "laptop"} for entry in entries)
        assert it.call("audit", {"limit": 10, "plans": True})[-1]["plan"] == {"datasets": []}
        told = b"".join(it.lines)
    for path in layout.state.rglob("*"):
        if path.is_file():
            assert b"sk-very-secret" not in path.read_bytes(), path
    assert b"sk-very-secret" not in told


def test_what_was_launched_outlives_the_agent(tree: Path) -> None:
    options = options_for(tree)
    with agent(options) as it:
        launched = launch(it, options)
        it.process.kill()
        it.ended()
    assert alive(Identity.from_json(launched["identity"]))
    with agent(options) as again:
        assert again.snapshot["generator"]["verdict"] == "running"
        assert again.snapshot["generator"]["pid"] == launched["pid"]
        again.call("stop", {"mode": "force", "identity": launched["identity"], "by": BY}, 60)
    assert not alive(Identity.from_json(launched["identity"]))


def test_a_generator_that_says_no_is_reported_in_its_own_words(tree: Path) -> None:
    options = options_for(tree, "refuse")
    with agent(options) as it:
        with pytest.raises(OperatorError) as caught:
            launch(it, options)
        assert caught.value.code == "no-tokenizer" and caught.value.remedy == "check --model-path"
        entry = it.call("audit", {"limit": 1})[0]
        assert (entry["action"], entry["outcome"]) == ("launch", "failed: no-tokenizer")


def test_a_second_launch_names_the_first(tree: Path) -> None:
    options = options_for(tree)
    with agent(options) as it:
        launched = launch(it, options)
        with pytest.raises(OperatorError) as caught:
            launch(it, options)
        assert caught.value.code == "preflight-lock" and BY in str(caught.value)
        it.call("stop", {"mode": "force", "identity": launched["identity"], "by": BY}, 60)


def test_stopping_what_another_operator_has_replaced_signals_nothing(tree: Path) -> None:
    options = options_for(tree)
    with agent(options) as it:
        launched = launch(it, options)
        other = dict(launched["identity"], start_ticks=1)
        with pytest.raises(OperatorError) as caught:
            it.call("stop", {"mode": "force", "identity": other, "by": BY}, 60)
        assert caught.value.code == "changed-hands"
        assert alive(Identity.from_json(launched["identity"]))
        it.call("stop", {"mode": "force", "identity": launched["identity"], "by": BY}, 60)


STRAYS = "B2_opencodeinstruct"


def _state(snapshot: dict[str, Any]) -> str:
    return str(snapshot["datasets"][STRAYS]["state"])


def test_a_foreign_writer_is_shown_and_killed_only_as_it_was_seen(tree: Path) -> None:
    script = tree.parent / "run_inference.py"
    script.write_text(
        "import sys, time\nfile = open(sys.argv[2] + '/B2_opencodeinstruct/raw_responses.jsonl', 'a')\n"
        "print('open', flush=True)\ntime.sleep(600)\n"
    )
    stray = subprocess.Popen(
        [sys.executable, str(script), "--root", str(tree), "--max-samples", "70"], stdout=subprocess.PIPE
    )
    try:
        assert stray.stdout is not None and stray.stdout.readline() == b"open\n"
        options = options_for(tree)
        with agent(options) as it:
            seen = it.until(lambda snapshot: snapshot["writers"])
            writer = seen["writers"][0]
            assert writer["pid"] == stray.pid and writer["datasets"] == ["B2_opencodeinstruct"]
            assert writer["max_samples"] == 70 and writer["knows_token_budget"] is False
            assert it.until(lambda snapshot: snapshot["writers"][0].get("needless_tokens"))
            # It appends nothing for minutes between two answers; what it holds open is being written all the same.
            assert _state(it.until(lambda snapshot: snapshot["datasets"][STRAYS].get("in_work"))) == "running"
            with pytest.raises(OperatorError):
                launch(it, options)  # it has not been named to be killed
            with pytest.raises(OperatorError):
                it.call("kill_stray", {"identity": dict(writer["identity"], start_ticks=1), "by": BY}, 60)
            assert stray.poll() is None
            killed = it.call("kill_stray", {"identity": writer["identity"], "by": BY}, 60)
            assert killed["left"] == [] and killed["respawned"] is None
            after = it.until(
                lambda snapshot: not snapshot["writers"] and not snapshot["datasets"][STRAYS].get("in_work")
            )
            assert _state(after) != "running"
            entry = it.until(lambda snapshot: snapshot["audit"])["audit"][0]
            assert entry["action"] == "kill" and entry["detail"].startswith(f"pid {stray.pid}, took ")
    finally:
        stray.kill()
        stray.wait()


def test_notes_holds_and_acknowledgements_are_there_for_the_next_shift(tree: Path) -> None:
    options = options_for(tree)
    with agent(options) as it:
        it.call("note", {"text": "B3 looks odd", "by": BY})
        it.call("hold", {"reason": "extraction is reading", "by": BY})
        it.call("ack", {"key": "engine-unhealthy", "by": BY, "note": "known"})
    with agent(options) as it:
        assert it.snapshot["hold"]["reason"] == "extraction is reading"
        assert it.snapshot["acks"]["engine-unhealthy"]["by"] == BY
        assert {"note", "hold"} <= {entry["action"] for entry in it.call("audit", {})}
        with pytest.raises(OperatorError, match="hold"):
            launch(it, options)
        it.call("hold", {"reason": "", "by": BY})
        it.until(lambda snapshot: "hold" not in snapshot)
        it.call("ack", {"key": "engine-unhealthy", "clear": True, "by": BY})
        it.until(lambda snapshot: not snapshot.get("acks"))


def test_nothing_is_left_running_when_the_agent_ends(tree: Path, tmp_path: Path) -> None:
    slow = tmp_path / "bin"
    slow.mkdir()
    smi = slow / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho $$ > " + str(tmp_path / "pid") + "\nexec sleep 600\n")
    smi.chmod(0o755)
    with agent(None, {"PATH": f"{slow}:{os.environ['PATH']}"}) as it:
        it.call("hello", {"options": options_for(tree).to_json()})
        it.wait((tmp_path / "pid").exists)
        it.wait(lambda: (tmp_path / "pid").read_text().strip())
        it.until(lambda snapshot: snapshot["datasets"]["B1_glaive"].get("responses") == 100)
        child = identify(int((tmp_path / "pid").read_text()))
        assert it.call("ping"), "a hung nvidia-smi holds up nothing"
        it.call("bye")
        it.ended()
    assert not alive(child)


def test_retokenize_answers_with_what_became_of_each_dataset(tree: Path) -> None:
    options = Options(root=str(tree), python=sys.executable, model_path=str(tree / "no-model"))
    with agent(options) as it:
        with pytest.raises(OperatorError, match="no-model"):
            it.call("retokenize", {"options": options.to_json(), "by": BY}, 60)
        rows = (tree / "B2_opencodeinstruct" / RESPONSES).read_bytes().splitlines()
        assert json.loads(rows[0])["output_ids"], "nothing was touched"
