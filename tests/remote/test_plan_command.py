"""`plan` as a program on real trees: what it says, what it leaves untouched, and what cannot make it fail."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remote.facts import Surroundings
from remote.layout import Layout
from remote.model import Sampling, read_model
from remote.options import Budget, Options
from remote.plan import DatasetPlan, Plan
from remote.plan_command import plan_of
from remote.planning import make_plan
from remote.probe import EngineFacts
from remote.records import Rules
from remote.retokenize import retokenize_dataset
from remote.runs import Run, record_end, record_engine, record_start, sizes
from remote.scan import scan_root
from remote.surroundings import look_around
from remote.tombstones import Tombstones
from tests.support.answered import Answered
from tests.support.tokenizers import fast_model
from tests.support.tree import SMALL_BUDGET, make_tree, prompt, response, write_lines

REPO = Path(__file__).resolve().parents[2]


def run_plan(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "remote", "plan", "--root", str(root), "--quick", *arguments]
    return subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=60)


def plan_json(root: Path, *arguments: str) -> dict[str, Any]:
    done = run_plan(root, "--json", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def stamps(root: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(root.rglob("*"))}


def plan_here(root: Path, options: Options, around: Surroundings | None = None, rules: Rules | None = None) -> Plan:
    options = replace(options, root=str(root))
    around = around or look_around(Layout(root), options, gpus=8, writers=[])
    return make_plan(Layout(root), scan_root(root, rules or Rules()), options, around)[0]


def one(plan: Plan, folder: str) -> DatasetPlan:
    return next(dataset for dataset in plan.datasets if dataset.folder == folder)


def codes(plan: DatasetPlan) -> list[str]:
    return [problem.code for problem in plan.problems]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "prepared")


def test_the_day_of_the_incident(tree: Path) -> None:
    before = stamps(tree)
    plan = plan_json(tree, "--token-budget", str(SMALL_BUDGET))
    decided = {row["id"]: (row["inference"]["decision"], row["inference"]["reason"]) for row in plan["datasets"]}
    assert decided == {
        "B1": ("skip", "budget-met"),
        "B2": ("skip", "budget-met"),
        "B3": ("resume", "partial"),
    } | {f"B{number}": ("start", "from-scratch") for number in range(4, 9)}
    b1, b2, b3 = plan["datasets"][:3]
    assert (b1["inference"]["existing_responses"], b2["inference"]["existing_responses"]) == (100, 29)
    assert (b3["inference"]["prompts_left"], b3["tokenization"]["decision"]) == (58, "after-inference")
    untokenized = next(step for step in b1["steps"] if step["check"] == "tokenization")["evidence"]
    assert "B1-000000" in untokenized and "B1-000001" in untokenized
    assert plan["riskiest"] == "B3_magicoder"
    assert [row["holds"] for row in plan["assumptions"]] == [True, None, True, True]
    assert (plan["running"], plan["writers"], plan["preflight"]) == ([], [], [])
    assert stamps(tree) == before, "a plan changes nothing"


def test_the_text_says_the_same(tree: Path) -> None:
    done = run_plan(tree, "--token-budget", str(SMALL_BUDGET))
    assert (done.returncode, done.stderr) == (0, "")
    assert "B3   Magicoder          resume   partial" in done.stdout
    assert "budget met" in done.stdout


def test_no_such_root_is_one_line(tmp_path: Path) -> None:
    done = run_plan(tmp_path / "nowhere", "--json")
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1 and "nowhere" in done.stderr and "Traceback" not in done.stderr


def test_an_empty_root_shows_eight_missing(tmp_path: Path) -> None:
    plan = plan_json(tmp_path)
    assert [(row["inference"]["decision"], row["inference"]["reason"]) for row in plan["datasets"]] == (
        [("skip", "missing")] * 8
    )
    assert plan["totals"]["work"] == 0


def test_damaged_state_files_do_not_make_it_fail(tree: Path) -> None:
    expected = plan_json(tree, "--token-budget", str(SMALL_BUDGET))
    state = tree / ".eagle3"
    state.mkdir()
    for name in ("run.json", "control.json", "exit.json", "progress.json", "hold.json", "index.json", "acks.json"):
        (state / name).write_bytes(b'{"run": \xff[')
    for name in ("runs.jsonl", "failed.jsonl", "history.jsonl", "audit.jsonl"):
        (state / name).write_bytes(b'{"run": 3}\n[]\n\xff\n{"at": "x", "run": "r", "starts": 4}\n{"tor')
    (tree / "B1_glaive" / "tokenized_data.meta.json").write_bytes(b'{"version": 1, "fingerprint": []}')
    damaged = plan_json(tree, "--token-budget", str(SMALL_BUDGET))
    for was, now in zip(expected["datasets"], damaged["datasets"], strict=True):
        assert (was["name"], was["inference"], was["tokenization"]) == (
            now["name"],
            now["inference"],
            now["tokenization"],
        )


APPENDER = """
import sys, time
path, line = sys.stdin.readline().rstrip(), sys.stdin.readline()
while True:
    with open(path, "a") as file:
        file.write(line)
    print("appended", flush=True)
    time.sleep(0.1)
"""


def test_a_file_that_grows_without_a_known_writer_blocks_a_start(tree: Path) -> None:
    """It opens, appends and closes, and neither its command line nor its script speaks of the root."""
    answers = tree / "B3_magicoder" / "raw_responses.jsonl"
    command = [sys.executable, "-c", APPENDER]
    with subprocess.Popen(command, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as stranger:
        assert stranger.stdin is not None and stranger.stdout is not None
        stranger.stdin.write(f"{answers}\n{answers.read_text().splitlines()[0]}\n")
        stranger.stdin.flush()
        stranger.stdout.readline()
        plan = plan_of(Options(root=str(tree), engine_url="http://127.0.0.1:9", python="/bin/false"), {})
        stranger.kill()
    growth = next(check for check in plan.preflight if check.check == "growth")
    assert (growth.level, "B3" in growth.detail) == ("blocker", True), growth
    assert plan.assumptions[3]["holds"] is False


def test_other_folders_and_faults_are_planned_each_by_itself(tree: Path) -> None:
    (tree / "B4_mixturethoughts" / "prompts.jsonl").unlink()
    (tree / "B5_openthoughts" / "prompts.jsonl").write_bytes(b"\xff\n\n{}\n")
    shutil.rmtree(tree / "B6_ultrachat")
    shutil.rmtree(tree / "B7_sharegpt")
    write_lines(tree / "B7_sharegpt" / "prompts.jsonl", [prompt(number) for number in range(50)])
    write_lines(
        tree / "B7_sharegpt" / "raw_responses.jsonl",
        [
            response(number, output_ids="AAEC" if number < 21 else [5, 9]) | {"completion_tokens": 2}
            for number in range(40)
        ],
    )
    write_lines(tree / "A1_extra" / "tokenized_data.jsonl", [{"sample_id": "a", "input_ids": [1], "loss_mask": [1]}])
    plan = plan_here(tree, Options(token_budget=Budget(SMALL_BUDGET)))
    decided = {dataset.id: (dataset.decision, dataset.reason) for dataset in plan.datasets}
    assert {key: decided[key] for key in ("B4", "B5", "B6", "B7", "A1", "B8")} == {
        "B4": ("skip", "no-prompts"),
        "B5": ("skip", "no-prompts"),
        "B6": ("skip", "missing"),
        "B7": ("blocked", "faulty"),
        "A1": ("skip", "pretokenized"),
        "B8": ("start", "from-scratch"),
    }
    assert "output-ids-not-a-list" in next(
        step.evidence for step in one(plan, "B7_sharegpt").steps if step.check == "records"
    )
    accepted = plan_here(tree, Options(token_budget=Budget(SMALL_BUDGET), accept=("faulty:B7",)))
    assert one(accepted, "B7_sharegpt").decision == "resume"
    assert one(accepted, "B7_sharegpt").prompts_left == 31


def test_prompts_that_were_set_aside_are_not_left(tree: Path) -> None:
    (tree / ".eagle3").mkdir()
    stones = Tombstones(Layout(tree), "run-1")
    answered = json.loads((tree / "B3_magicoder" / "raw_responses.jsonl").read_bytes().splitlines()[0])["sample_id"]
    unanswered = [f"B3-{number:06d}" for number in range(60) if f"B3-{number:06d}" != answered][:3]
    for key in (*unanswered, answered, "no-such-prompt"):
        stones.add("B3_magicoder", key, None, "too-long", "")
    left = one(plan_here(tree, Options()), "B3_magicoder").prompts_left
    again = one(plan_here(tree, Options(retry_failed=True)), "B3_magicoder").prompts_left
    assert again == 58
    aside = {step.check: step.because for step in one(plan_here(tree, Options()), "B3_magicoder").steps}["set-aside"]
    assert left == 58 - int(aside.split()[0])
    assert 2 <= 58 - left <= 3, "an unanswered prompt alone can be set aside"


def test_answers_of_other_settings_are_said(tree: Path) -> None:
    layout = Layout(tree)
    (tree / ".eagle3").mkdir()
    folder = "B3_magicoder"
    end = sizes(layout, [folder])[folder]
    first = (tree / folder / "raw_responses.jsonl").read_bytes().index(b"\n") + 1
    run = Run("r1", time.time(), {"max_new_tokens": 16_384}, {"temperature": 0.6}, "--sampling", model_path="/models/K")
    record_start(layout, run, {folder: first})
    record_engine(layout, "r1", {"weight_version": "w1"})
    record_end(layout, "r1", 0, {folder: end})
    same = Surroundings(
        time.time(), sampling=Sampling({"temperature": 0.6}, "--sampling"), engine=EngineFacts("u", weight_version="w1")
    )
    told = one(plan_here(tree, Options(), same), folder)
    assert "settings-changed" not in codes(told)
    assert "1 answer by an older script" in " ".join(step.because for step in told.steps)
    other = replace(
        same, sampling=Sampling({"temperature": 1.0}, "default"), engine=EngineFacts("u", weight_version="w2")
    )
    changed = one(plan_here(tree, Options(model_path=None), other), folder)
    messages = [problem.message for problem in changed.problems if problem.code == "settings-changed"]
    assert sorted(message.split("made with ")[1] for message in messages) == [
        "temperature 0.6, now 1.0",
        "weights w1, now w2",
    ]
    assert changed.decision == "resume", "a mixture is said, not refused"


def test_a_changed_template_is_said_before_its_rows_are_rebuilt(tmp_path: Path) -> None:
    loaded = fast_model()
    model = tmp_path / "model"
    shutil.copytree(loaded.path, model)
    facts = read_model(str(model))
    rules = Rules(facts.vocab_size, facts.eos_ids)
    root = tmp_path / "prepared"
    data = Answered(root, loaded.tokenizer, min(facts.eos_ids))
    data.write_prompts(10)
    write_lines(data.responses, [data.record(f"s{number}") for number in range(6)])
    options = Options(root=str(root), model_path=str(model), token_budget=Budget(10))

    def plan() -> tuple[Plan, DatasetPlan]:
        found = plan_here(root, options, rules=rules)
        return found, one(found, data.folder)

    _, never = plan()
    assert (never.decision, never.reason) == ("skip", "budget-met")
    assert (never.tokenization, never.tokenization_reason) == ("rebuild", "no-file")
    retokenize_dataset(data.layout, data.folder, options, loaded.tokenizer)
    whole, made = plan()
    assert (made.tokenization, made.tokenization_reason) == ("skip", "up-to-date")
    assert whole.assumptions[1]["holds"] is True
    assert made.trainable is not None and made.trainable["rows"] == 6
    write_lines(data.responses, [data.record(f"s{number}") for number in range(7)])
    assert plan()[1].tokenization == "rebuild"
    config = model / "tokenizer_config.json"
    config.write_text(config.read_text().replace("{", '{"chat_template": "{{ messages }}",', 1))
    whole, changed = plan()
    assert (changed.tokenization, changed.tokenization_reason) == ("rebuild", "fingerprint-changed")
    assert "fingerprint-changed" in codes(changed)
    assert whole.assumptions[1]["holds"] is False
