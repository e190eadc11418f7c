"""`trace`, `restart --plan`, `doctor` and `report` as programs, against the agent itself (target `local`)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from remote import audit
from remote.layout import Layout
from tests.support.cli import Ran, console
from tests.support.tree import SMALL_BUDGET, make_tree, response, write_lines

Run = Callable[..., Ran]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "prepared")


@pytest.fixture
def run(tmp_path: Path, root: Path) -> Run:
    """The console on this tree, with no engine and no model: the plan needs neither."""
    given = ["local", "--root", str(root), "--token-budget", str(SMALL_BUDGET), "--engine-url", "http://127.0.0.1:9"]

    def ran(command: str, *more: str) -> Ran:
        return console(command, *given, *more, home=tmp_path / "home")

    return ran


def test_a_trace_is_kept_and_holds_until_a_decision_changes(run: Run, root: Path, tmp_path: Path) -> None:
    kept = tmp_path / "plan.json"
    traced = run("trace", "--out", str(kept))
    assert traced.code == 0, traced.err
    assert "\x1b" not in traced.out, "a pipe gets plain text"
    for words in ("nothing has been changed", "budget met", "ASSUMED", "PREFLIGHT"):
        assert words in traced.out
    plan = json.loads(kept.read_text())
    assert [row["inference"]["reason"] for row in plan["datasets"]][:3] == ["budget-met", "budget-met", "partial"]
    assert {check["check"]: check["level"] for check in plan["preflight"]}["tokenizer"] == "blocker"
    assert not (root / ".eagle3").exists(), "a trace changes nothing"

    same = run("restart", "--yes", "--plan", str(kept))
    assert "not the one of the kept plan" not in same.err, "counts and times alone do not differ"
    assert same.code != 0 and "--model-path" in same.err, "the missing model is what is in the way"

    answers = [response(f"B4-{number:06d}", 400) for number in range(30)]
    write_lines(root / "B4_mixturethoughts" / "raw_responses.jsonl", answers)
    drifted = run("restart", "--yes", "--plan", str(kept))
    assert drifted.code != 0
    assert "B4_mixturethoughts: inference was start (from-scratch), now skip (budget-met)" in drifted.err
    assert "Traceback" not in drifted.err
    assert not Layout(root).run_json.exists()


def test_doctor_fails_on_a_blocker_and_prints_its_remedy(run: Run) -> None:
    checked = run("doctor")
    assert checked.code == 1
    assert "--model-path DIR" in checked.out
    assert "the container's clock is" in checked.out


def test_a_report_compares_the_last_plan_with_what_is_there(run: Run, root: Path) -> None:
    plan = run("trace", "--json").json()
    audit.record(Layout(root), "ann@laptop", "restart", "done", plan=plan)
    audit.record(Layout(root), "bob@desk", "note", "noted", "morning")
    answers = [response(f"B4-{number:06d}", 400) for number in range(30)]
    write_lines(root / "B4_mixturethoughts" / "raw_responses.jsonl", answers)
    with (root / "B2_opencodeinstruct" / "raw_responses.jsonl").open("ab") as file:
        file.write(json.dumps(response("B2-new", 5)).encode() + b"\n")
    reported = run("report", "--json")
    found = reported.json()
    assert (reported.code, found["good"]) == (0, False)
    assert found["who"] == "ann@laptop"
    verdicts = {row["id"]: row["verdict"] for row in found["datasets"]}
    assert {key: verdicts[key] for key in ("B2", "B3", "B4", "B5")} == {
        "B2": "unexpected",
        "B3": "short",
        "B4": "short",
        "B5": "short",
    }
    b4 = next(row for row in found["datasets"] if row["id"] == "B4")
    assert (b4["made_answers"], b4["made_tokens"]) == (30, 12_000)
    assert "still to be tokenized" in b4["detail"]
