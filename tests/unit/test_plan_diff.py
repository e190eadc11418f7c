"""`restart --plan FILE`: what was decided must still hold, whatever the counts are."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from console.plan_diff import plan_differences, read_plan
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.options import Options
from remote.plan import plan_root
from tests.unit.test_plan_incident import incident_plan


@pytest.fixture
def kept() -> dict[str, Any]:
    plan: dict[str, Any] = incident_plan().to_json()
    return json.loads(json.dumps(plan | {"fingerprint": "f00d", "engine_model": "/models/K"}))  # type: ignore[no-any-return]


def test_counts_alone_do_not_differ(kept: dict[str, Any]) -> None:
    now = copy.deepcopy(kept)
    now["at"] += 100
    for row in now["datasets"]:
        for key in ("existing_responses", "existing_tokens", "prompts_left", "expected_tokens", "may_answer"):
            row["inference"][key] = (row["inference"][key] or 0) + 17
        row["steps"] = []
        row["problems"] = []
    now["totals"] = {}
    now["running"][0]["needless_tokens"] = 1
    now["writers"][0]["needless_tokens"] = 1
    now["preflight"] = [{"check": "engine", "level": "warning"}]
    assert plan_differences(kept, now) == []


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("datasets", 1, "inference", "decision"), "resume", "B2_opencodeinstruct: inference"),
        (("datasets", 1, "inference", "reason"), "exhausted", "budget-met"),
        (("datasets", 0, "tokenization", "decision"), "skip", "B1_glaive: tokenization"),
        (("datasets", 0, "tokenization", "reason"), "up-to-date", "no-meta"),
        (("datasets", 4, "kind"), "pretokenized", "B5_openthoughts: kind"),
        (("options", "token_budget", "default"), 5, "--token-budget"),
        (("options", "max_samples"), 7000, "--max-samples was none, now 7000"),
        (("options", "accept"), ["hold"], "--accept"),
        (("fingerprint",), "beef", "fingerprint was f00d, now beef"),
        (("engine_model",), None, "/models/K"),
        (("writers",), [], "pid 911"),
        (("writers", 0, "identity", "start_ticks"), 2, "pid 911"),
        (("datasets", 7, "name"), "C9_new", "C9_new is new"),
    ],
)
def test_each_kind_of_difference_is_named(kept: dict[str, Any], path: tuple[Any, ...], value: Any, words: str) -> None:
    now = copy.deepcopy(kept)
    place = now
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    differences = plan_differences(kept, now)
    assert any(words in difference for difference in differences), differences
    assert plan_differences(now, kept), "it differs the other way round too"


def test_a_new_writer_with_the_same_pid_is_another_one(kept: dict[str, Any]) -> None:
    now = copy.deepcopy(kept)
    now["writers"][0]["identity"]["boot_id"] = "later"
    gone, came = sorted(plan_differences(kept, now), key=lambda clause: "writes now" in clause)
    assert "does not any more" in gone and "did not then" in came


def test_a_plan_survives_its_file(tmp_path: Path) -> None:
    plan = plan_root([], Options()).to_json()
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    assert plan_differences(read_plan(path), plan) == []


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", b'{"datasets": 3, "options": {}}', b"[" * 100_000])
def test_a_file_that_is_no_plan_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    with pytest.raises(OperatorError) as caught:
        read_plan(path)
    assert (caught.value.code, caught.value.exit_code) == ("no-plan", ExitCode.USAGE)
    assert str(path) in caught.value.message and "\n" not in str(caught.value)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="No such file"):
        read_plan(tmp_path / "gone.json")
