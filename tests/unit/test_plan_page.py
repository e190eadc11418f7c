"""docs/plan.md against the code: every reason, problem, check and key that there is, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from remote import dataset_plan, rules
from remote.options import Options
from remote.plan import plan_root
from remote.preflight import CHECKS
from remote.tokenization import WOULD_LOSE
from tests.unit.test_plan_incident import incident_plan

REPO = Path(__file__).resolve().parents[2]
PAGE = (REPO / "docs" / "plan.md").read_text(encoding="utf-8")
SOURCES = "".join(Path(str(module.__file__)).read_text(encoding="utf-8") for module in (rules, dataset_plan))


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


def first_column(title: str) -> set[str]:
    rows = [line.split("|")[1] for line in section(title).splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_every_problem_has_its_row() -> None:
    codes = set(re.findall(r'found\.problem\(\s*\w+,\s*"([a-z-]+)"', SOURCES))
    assert "found.problem(WARNING, WOULD_LOSE" in SOURCES
    assert first_column("Problems") == codes | {WOULD_LOSE}


def test_every_check_has_its_row_in_its_order() -> None:
    rows = re.findall(r"^\| `([a-z]+)` \|", section("Preflight"), re.MULTILINE)
    assert rows == [check.__name__ for check in CHECKS]


def test_every_reason_is_told_with_its_decision() -> None:
    told = set(re.findall(r"(skip|resume|start|blocked), `([a-z-]+)`", section("The rules, in their order")))
    rules_text = Path(str(rules.__file__)).read_text(encoding="utf-8")
    ruled = set(re.findall(r'return "(skip|blocked)", "([a-z-]+)"', rules_text))
    ruled |= set(re.findall(r'\("(resume|start)", "([a-z-]+)"\)', SOURCES))
    assert told == ruled


def test_every_key_of_the_json_is_told() -> None:
    plan = incident_plan().to_json()
    assert first_column("`plan --json`") == set(plan) == set(plan_root([], Options()).to_json())
    keys = section("`plan --json`")
    for row in (*plan["assumptions"], *plan["datasets"]):
        for name in (row["check"],) if "check" in row else row:
            assert f"`{name}`" in keys
