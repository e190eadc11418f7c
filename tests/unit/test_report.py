"""`report`: the plan that was confirmed, against what is there now."""

from __future__ import annotations

from typing import Any

import pytest

from console.report import Report, make_report, planned_entry, report_lines
from console.trace_text import plain
from remote.errors import OperatorError
from tests.support.states import NOW
from tests.unit.test_plan_incident import incident_plan

DONE = {"state": "budget-met", "tokenization": {"decision": "skip", "reason": "up-to-date"}}


def entry() -> dict[str, Any]:
    return {
        "at": NOW,
        "who": {"user": "ann", "host": "laptop"},
        "action": "restart",
        "outcome": "done",
        "plan": incident_plan().to_json(),
    }


def finished() -> dict[str, dict[str, Any]]:
    """Every dataset as the plan wanted it."""
    rows = {}
    for row in entry()["plan"]["datasets"]:
        inference = row["inference"]
        if inference["decision"] == "skip":
            rows[row["name"]] = DONE | {
                "responses": inference["existing_responses"],
                "tokens": inference["existing_tokens"],
            }
        else:
            rows[row["name"]] = DONE | {
                "responses": (inference["existing_responses"] or 0) + inference["expected_responses"],
                "tokens": 10_005_000,
            }
    return rows


def report(rows: dict[str, dict[str, Any]], verdict: str = "exited", at: float = NOW + 3600) -> Report:
    return make_report(entry(), rows, {"verdict": verdict, "run_id": "r1", "exit": {"at": NOW + 1800}}, at)


def verdicts(found: Report) -> dict[str, str]:
    return {row.id: row.verdict for row in found.datasets}


def test_a_run_that_kept_its_word() -> None:
    found = report(finished())
    assert found.good
    assert verdicts(found) == {"B1": "as planned", "B2": "as planned"} | {f"B{n}": "done" for n in range(3, 9)}
    assert found.took_s == 1800
    b3 = found.datasets[2]
    assert (b3.planned, b3.planned_answers, b3.made_answers) == ("resume", 5998, 5998)
    assert "beyond the budget" in b3.detail


def test_what_fell_short_is_named() -> None:
    rows = finished()
    rows["B4_mixturethoughts"] |= {"state": "partial", "tokens": 4_000_000}
    rows["B5_openthoughts"] |= {"tokenization": {"decision": "rebuild", "reason": "new-records"}}
    rows["B6_ultrachat"] |= {"state": "exhausted", "tokens": 6_000_000}
    found = report(rows)
    assert not found.good
    assert {key: verdicts(found)[key] for key in ("B4", "B5", "B6")} == {"B4": "short", "B5": "short", "B6": "done"}
    details = {row.id: row.detail for row in found.datasets}
    assert "6.00 M to go" in details["B4"]
    assert "still to be tokenized" in details["B5"]
    assert "60 % of the budget" in details["B6"]


def test_a_run_that_still_runs_is_under_way() -> None:
    rows = finished()
    rows["B8_sweagent"] |= {"state": "running", "tokens": 1_000_000}
    found = report(rows, "running")
    assert verdicts(found)["B8"] == "under way"
    assert found.took_s == 3600
    assert found.good


def test_answers_where_none_were_planned_are_unexpected() -> None:
    rows = finished()
    rows["B2_opencodeinstruct"] |= {"responses": 2_950}
    found = report(rows)
    assert verdicts(found)["B2"] == "unexpected"
    assert "38 records appeared" in found.datasets[1].detail


def test_records_that_vanished_are_unexpected() -> None:
    rows = finished()
    rows["B1_glaive"] |= {"responses": 9_000}
    found = report(rows)
    assert (found.datasets[0].verdict, found.datasets[0].detail) == ("unexpected", "1,000 records fewer than before")
    assert not found.good


def test_a_folder_that_is_gone_is_unexpected() -> None:
    rows = finished()
    del rows["B7_sharegpt"]
    rows["B1_glaive"] = {"state": "missing"}
    assert {key: verdicts(report(rows))[key] for key in ("B1", "B7")} == {"B1": "unexpected", "B7": "unexpected"}


def test_the_newest_entry_with_a_plan_is_reported() -> None:
    note = {"action": "note", "plan": None}
    older = entry() | {"at": 1.0}
    assert planned_entry([note, entry(), older])["at"] == NOW
    with pytest.raises(OperatorError, match="no restart"):
        planned_entry([note])


@pytest.mark.parametrize("width", [80, 120])
def test_the_report_fits_and_names_each_dataset(width: int) -> None:
    rows = finished()
    rows["B4_mixturethoughts"] |= {"state": "partial", "tokens": 4_000_000}
    text = plain(report_lines(report(rows), width))
    assert max(map(len, text.splitlines())) <= width
    assert "restart by ann@laptop" in text
    assert "✗ B4" in text and "✓ B3" in text and "· B1" in text


def test_damaged_values_do_not_break_a_report() -> None:
    damaged = {"at": "?", "who": [], "action": None, "plan": {"datasets": [3, {"name": 1, "inference": "x"}]}}
    assert make_report(damaged, {}, {"exit": "?"}, NOW).datasets[0].verdict == "unexpected"


def test_prompts_that_were_taken_away_meanwhile_are_said() -> None:
    rows = finished()
    planned = next(row for row in entry()["plan"]["datasets"] if row["name"] == "B7_sharegpt")["inference"]
    there = planned["answered"] + planned["prompts_left"]
    for prompts in (there, there + 10):
        rows["B7_sharegpt"]["prompts"] = prompts
        assert "prompts.jsonl" not in report(rows).datasets[6].detail
    rows["B7_sharegpt"] |= {"prompts": 32, "state": "exhausted", "tokens": 9_000_000}
    detail = report(rows).datasets[6].detail
    assert detail.endswith(f"prompts.jsonl has 32 prompts now, {there:,} when it was planned")
