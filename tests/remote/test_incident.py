"""The main job, whole: the incident's container behind a real OpenSSH server, driven by the real command line.

One story for the module, told in order: look, be refused, restart, be killed, go on, finish. What it
checks at the end is counted by code of its own, not by the project's.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from console.demo import container
from console.demo.state import DemoInfo
from tests.support.cli import Ran, console, start_console, wait_until
from tests.support.needs import needs
from tests.support.sshd import Server, sshd

BUDGET = 100_000
FOLDERS = [
    "B1_glaive",
    "B2_opencodeinstruct",
    "B3_magicoder",
    "B4_mixturethoughts",
    "B5_openthoughts",
    "B6_ultrachat",
    "B7_sharegpt",
    "B8_sweagent",
]
END_LIMIT_S = 150.0


@dataclass
class Stage:
    """The container, the real sshd before it, and what was there at the start."""

    info: DemoInfo
    server: Server
    home: Path
    before: dict[str, bytes]
    trace: dict[str, Any]

    @property
    def root(self) -> Path:
        return Path(self.info.root)

    def words(self, *more: str) -> list[str]:
        """Target and options, as somebody would type them."""
        return [
            f"{self.server.user}@127.0.0.1:{self.server.port}",
            *("--identity", str(self.server.identity), "--known-hosts", str(self.server.known_hosts)),
            *("--root", self.info.root, "--engine-url", self.info.engine_url),
            *("--model-path", self.info.model_path, "--python", self.info.python, "--token-budget", "100k"),
            *more,
        ]

    def run(self, command: str, *more: str) -> Ran:
        return console(command, *self.words(*more), home=self.home)

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.run("status", "--json").json()
        return status

    def generator(self) -> dict[str, Any]:
        generator: dict[str, Any] = self.status()["generator"]
        return generator

    def records(self, folder: str) -> list[dict[str, Any]]:
        """Every line of raw_responses.jsonl; a line that does not parse fails."""
        path = self.root / folder / "raw_responses.jsonl"
        data = path.read_bytes() if path.exists() else b""
        assert data == b"" or data.endswith(b"\n")
        return [json.loads(line) for line in data.splitlines()]

    def ended(self) -> bool:
        """Whether the run that was launched last has its exit record."""
        state = self.root / ".eagle3"
        try:
            run, end = (json.loads((state / name).read_bytes()) for name in ("run.json", "exit.json"))
        except FileNotFoundError:
            return False
        return bool(run["run"] == end["run"])

    def engine_running(self) -> int:
        with urllib.request.urlopen(f"{self.info.engine_url}/get_load", timeout=10) as answer:
            return int(json.load(answer)[0]["num_reqs"])

    def older_script(self) -> int:
        return self.info.pids["older_script"]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    needs("sshd", "ssh")
    folder = Path(tempfile.mkdtemp(prefix="e3-incident-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        # Fast enough for a test; slow enough that there is a middle in which things can be killed.
        info = container.start(folder / "demo", speed=6.0)
        root = Path(info.root)
        before = {name: (root / name / "raw_responses.jsonl").read_bytes() for name in FOLDERS[:3]}
        (folder / "home").mkdir()
        with sshd(folder, ["MaxStartups 100"]) as server:
            yield Stage(info, server, folder / "home", before, {})
    finally:
        container.stop(folder / "demo")
        shutil.rmtree(folder, ignore_errors=True)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def test_the_incident_is_seen(stage: Stage) -> None:
    status = stage.status()
    rows = {row["name"]: row for row in status["datasets"]}
    assert rows["B1_glaive"]["state"] == "budget-met"
    assert (rows["B1_glaive"]["responses"], rows["B1_glaive"]["tokenized"]) == (100, 98)
    assert rows["B2_opencodeinstruct"]["tokens"] > BUDGET
    (writer,) = status["writers"]
    assert writer["pid"] == stage.older_script()
    assert writer["token_budget"] is None
    assert writer["needless_tokens"] > 0
    assert any(alert["level"] == "critical" for alert in status["alerts"])


def test_the_trace_says_what_a_restart_would_do(stage: Stage) -> None:
    stage.trace = stage.run("trace", "--json").json()
    decisions = {
        row["name"]: (row["inference"]["decision"], row["inference"]["reason"]) for row in stage.trace["datasets"]
    }
    assert decisions["B1_glaive"] == ("skip", "budget-met")
    assert decisions["B2_opencodeinstruct"] == ("skip", "budget-met")
    assert decisions["B3_magicoder"] == ("resume", "partial")
    assert {decisions[name] for name in FOLDERS[3:]} == {("start", "from-scratch")}
    assert not (stage.root / ".eagle3").exists(), "a trace changes nothing"


def test_a_restart_kills_nobody_who_was_not_named(stage: Stage) -> None:
    refused = stage.run("restart", "--yes")
    assert refused.code == 1
    assert f"--kill-pid {stage.older_script()}" in refused.err
    assert alive(stage.older_script())
    assert not (stage.root / ".eagle3" / "run.json").exists()


def test_two_restarts_at_once_start_one_generator(stage: Stage) -> None:
    words = stage.words("--yes", "--kill-pid", str(stage.older_script()))
    both = [start_console("restart", *words, home=stage.home) for _ in range(2)]
    ends = [(*process.communicate(timeout=180), process.returncode) for process in both]
    assert sorted(code == 0 for _, _, code in ends) == [False, True], ends
    assert not alive(stage.older_script())
    generators = [
        pid
        for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
        if alive(pid) and b"generate" in (command := _cmdline(pid)) and stage.info.root.encode() in command
    ]
    assert len(generators) == 1
    assert stage.generator()["pid"] == generators[0]


def _cmdline(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def test_console_and_sshd_killed_the_generator_runs_on(stage: Stage) -> None:
    pid = stage.generator()["pid"]
    watching = start_console("watch", *stage.words("--json"), home=stage.home)
    assert watching.stdout is not None
    assert watching.stdout.readline()
    watching.kill()
    for session in stage.server.sessions():
        os.kill(session, signal.SIGKILL)
    watching.communicate(timeout=30)
    generator = stage.generator()
    assert (generator["pid"], generator["verdict"]) == (pid, "running")


def test_killed_mid_run_and_restarted_nothing_is_lost_or_doubled(stage: Stage) -> None:
    generator = stage.generator()
    wait_until(lambda: len(stage.records("B3_magicoder")) > 5, 60, "B3 gets answers")
    os.kill(generator["pid"], signal.SIGKILL)
    wait_until(stage.ended, 30, "the supervisor writes how it ended")
    wait_until(lambda: stage.engine_running() == 0, 30, "the orphaned requests are aborted")
    acknowledged = {folder: {str(r["sample_id"]) for r in stage.records(folder)} for folder in FOLDERS}
    again = stage.run("restart", "--yes")
    assert again.code == 0, again.err
    for folder, ids in acknowledged.items():
        assert ids <= {str(r["sample_id"]) for r in stage.records(folder)}


def test_it_finishes_as_the_trace_said(stage: Stage) -> None:
    wait_until(stage.ended, END_LIMIT_S, "the run ends")
    status = stage.status()
    assert status["generator"]["verdict"] == "exited"
    assert status["generator"]["exit"]["code"] == 0
    rows = {row["name"]: row for row in status["datasets"]}
    for name in FOLDERS:
        records = stage.records(name)
        ids = [str(record["sample_id"]) for record in records]
        assert len(ids) == len(set(ids)), f"{name}: doubled"
        prompts = [json.loads(line) for line in (stage.root / name / "prompts.jsonl").read_bytes().splitlines()]
        assert set(ids) <= {str(prompt["sample_id"]) for prompt in prompts}
        tokens = sum(len(record["output_ids"]) for record in records)
        assert rows[name]["tokens"] == tokens
        assert tokens >= BUDGET or len(ids) == len(prompts), (
            f"{name}: {tokens} tokens of {len(prompts) - len(ids)} left"
        )
        for record in records:
            assert record["completion_tokens"] == len(record["output_ids"])
            assert record["finish_reason"] in ("stop", "length")
    assert rows["B1_glaive"]["state"] == rows["B2_opencodeinstruct"]["state"] == "budget-met"


def test_what_was_there_is_there_byte_for_byte(stage: Stage) -> None:
    b1 = (stage.root / "B1_glaive" / "raw_responses.jsonl").read_bytes()
    assert b1 == stage.before["B1_glaive"], "B1 has no new answer"
    for name in ("B2_opencodeinstruct", "B3_magicoder"):
        assert (stage.root / name / "raw_responses.jsonl").read_bytes().startswith(stage.before[name])


def test_training_rows_are_prompt_and_answer_untouched(stage: Stage) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(stage.info.model_path)
    for name in FOLDERS:
        records = {str(record["sample_id"]): record for record in stage.records(name)}
        meta = json.loads((stage.root / name / "tokenized_data.meta.json").read_bytes())
        left_out = {str(sample["sample_id"]) for sample in meta["left_out"]}
        rows = [json.loads(line) for line in (stage.root / name / "tokenized_data.jsonl").read_bytes().splitlines()]
        assert [str(row["sample_id"]) for row in rows] == [key for key in records if key not in left_out], name
        prompts = {
            str(prompt["sample_id"]): prompt
            for prompt in map(json.loads, (stage.root / name / "prompts.jsonl").read_bytes().splitlines())
        }
        for row in rows:
            record = records[str(row["sample_id"])]
            answer = record["output_ids"]
            border = len(row["input_ids"]) - len(answer)
            assert row["input_ids"][border:] == answer
            assert border == record["prompt_tokens"] > 0
            assert row["loss_mask"] == [0] * border + [1] * len(answer)
            prompt = prompts[str(row["sample_id"])]
            if "messages" in prompt and "tools" not in prompt and prompt["messages"][-1]["role"] != "assistant":
                rendered = tokenizer.apply_chat_template(
                    prompt["messages"], tokenize=True, add_generation_prompt=True, return_dict=False
                )
                assert row["input_ids"][:border] == list(rendered)


def test_the_report_compares_what_was_said_with_what_was_done(stage: Stage) -> None:
    report = stage.run("report", "--json")
    assert report.code == 0, report.err
    by_name = {row["name"]: row for row in report.json()["datasets"]}
    said = {row["name"]: row["inference"]["decision"] for row in stage.trace["datasets"]}
    assert said["B1_glaive"] == "skip"
    assert set(by_name) == set(FOLDERS)
    audit = stage.run("audit", "--json").json()
    assert any(entry["action"] == "restart" for entry in audit)
