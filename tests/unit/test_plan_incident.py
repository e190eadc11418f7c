"""The day of the incident: what the trace must say of B1 to B8, and of the process left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.trace_text import plain, trace_lines
from remote.assumptions import check_assumptions
from remote.facts import DatasetState, Process, RecordCounts
from remote.forecast import needless
from remote.options import Budget, Options
from remote.plan import DatasetPlan, Plan, plan_dataset, plan_root
from tests.support.states import NOW, incident_process, incident_states


def incident_plan(options: Options | None = None) -> Plan:
    options = options or Options()
    states = incident_states()
    plan = plan_root(states, options)
    return replace(
        plan,
        at=NOW,
        running=(needless(incident_process(), states, options),),
        assumptions=check_assumptions(states, plan.datasets, "4f2a91c00000"),
        release="4f2a91c00000",
        sampling={"values": {"temperature": 1.0, "top_p": 0.95}, "source": "generation_config.json"},
    )


def steps_of(plan: DatasetPlan) -> dict[str, tuple[str, str]]:
    return {step.check: (step.outcome, step.because) for step in plan.steps}


def test_what_a_restart_would_do() -> None:
    plan = incident_plan()
    assert [(row.id, row.decision, row.reason) for row in plan.datasets] == [
        ("B1", "skip", "budget-met"),
        ("B2", "skip", "budget-met"),
        ("B3", "resume", "partial"),
        ("B4", "start", "from-scratch"),
        ("B5", "start", "from-scratch"),
        ("B6", "start", "from-scratch"),
        ("B7", "start", "from-scratch"),
        ("B8", "start", "from-scratch"),
    ]
    assert plan.riskiest == "B3_magicoder"
    assert plan.datasets[2].may_answer == 5_998
    assert plan.datasets[2].expected is not None
    assert plan.datasets[2].expected.mean.own is False


def test_the_older_process_left_alone() -> None:
    left = needless(incident_process(), incident_states(), Options(price_per_hour=16.0))
    assert left.more_answers["B2_opencodeinstruct"] == 4_088
    assert round(left.by_dataset["B2_opencodeinstruct"] / 1e6, 1) == 15.0
    assert set(left.by_dataset) == {"B2_opencodeinstruct", "B7_sharegpt", "B8_sweagent"}
    assert left.needless_tokens == sum(left.by_dataset.values())
    assert round(left.needless_tokens / 1e6, 1) == 18.0
    assert left.cost.seconds == pytest.approx(left.needless_tokens / 590)
    assert left.cost.gpu_hours == pytest.approx(left.needless_tokens / 590 / 3600 * 8)
    assert left.cost.price == pytest.approx(left.needless_tokens / 590 / 3600 * 16)


def test_what_is_unknown_stays_unknown() -> None:
    states = incident_states(rate_tokens_s=None)
    left = needless(incident_process(), states, Options())
    assert left.needless_tokens is not None
    assert (left.cost.seconds, left.cost.gpu_hours, left.cost.price) == (None, None, None)
    unreadable = needless(replace(incident_process(), flags_known=False), states, Options())
    assert unreadable.needless_tokens is None
    nowhere = [replace(state, growing=False) for state in states]
    assert needless(replace(incident_process(), datasets=()), nowhere, Options()).needless_tokens is None


def test_a_script_that_opens_appends_and_closes_is_where_something_grows() -> None:
    holding_nothing = replace(incident_process(), datasets=())
    assert needless(holding_nothing, incident_states(), Options()).needless_tokens == (
        needless(incident_process(), incident_states(), Options()).needless_tokens
    )


def test_a_process_with_a_budget_of_its_own_stops_there() -> None:
    states = incident_states()
    ours = replace(incident_process(), budget=Budget(10_000_000))
    assert needless(ours, states, Options()).needless_tokens == 0
    larger = needless(replace(ours, budget=Budget(12_000_000), max_samples=None), states, Options())
    assert larger.by_dataset == {"B2_opencodeinstruct": 1_300_000} | {
        folder: tokens for folder, tokens in larger.by_dataset.items() if folder != "B2_opencodeinstruct"
    }
    assert all(tokens <= 2_000_000 for tokens in larger.by_dataset.values())


def test_more_answers_than_the_process_may_make_are_explained_by_file_times() -> None:
    b1 = plan_dataset(incident_states()[0], Options())
    outcome, because = steps_of(b1)["over-cap"]
    assert outcome == "note"
    assert "10,000" in because and "7000" in because and "before it started" in because
    assert not [problem for problem in b1.problems if problem.code == "over-cap"]


def test_answers_written_after_the_process_started_are_not_explained_away() -> None:
    late = replace(incident_states()[0], responses_changed_at=NOW - 60)
    outcome, because = steps_of(plan_dataset(late, Options()))["over-cap"]
    assert outcome == "warning"
    assert "after it started" in because


def test_a_cap_under_an_unmet_budget_is_a_warning() -> None:
    plan = plan_dataset(incident_states()[2], Options(max_samples=2))
    assert (plan.decision, plan.reason) == ("skip", "samples-met")
    assert [problem.code for problem in plan.problems if problem.level == "warning"] == ["below-budget"]


def test_a_budget_out_of_reach_is_said_beforehand_from_twenty_records_on() -> None:
    def state(records: int) -> DatasetState:
        return DatasetState(
            "B6_ultrachat",
            at=NOW,
            prompts=100,
            responses=records,
            records=RecordCounts(valid=records),
            tokens=records * 50,
            answered=records,
            all_records=records,
            all_tokens=records * 50,
        )

    options = Options(token_budget=Budget(10_000))
    few = plan_dataset(state(19), options)
    assert "budget-unreachable" not in [problem.code for problem in few.problems]
    enough = plan_dataset(state(20), options)
    assert "budget-unreachable" in [problem.code for problem in enough.problems]
    assert enough.decision == "resume"
    assert enough.expected is not None
    assert enough.expected.short_of == 10_000 - 100 * 50


def test_prompts_that_file_order_never_reaches_are_said() -> None:
    state = incident_states()[7]
    unused = steps_of(plan_dataset(state, Options()))["unused-prompts"]
    assert unused[0] == "note" and "--shuffle" in unused[1]
    assert "unused-prompts" not in steps_of(plan_dataset(state, Options(shuffle=1)))


@pytest.mark.parametrize(("unusable", "total", "blocked"), [(19, 100, False), (20, 2000, False), (21, 2000, True)])
def test_more_than_one_percent_and_twenty_unusable_block(unusable: int, total: int, blocked: bool) -> None:
    good = total - unusable
    state = DatasetState(
        "B3_magicoder",
        prompts=5000,
        responses=total,
        records=RecordCounts(valid=good, unusable=unusable),
        tokens=good * 100,
        answered=good,
    )
    plan = plan_dataset(state, Options())
    assert (plan.decision == "blocked") is blocked
    if blocked:
        (problem,) = [problem for problem in plan.problems if problem.level == "blocked"]
        assert "--accept faulty:B3" in problem.message
        assert plan_dataset(state, Options(accept=("faulty:B3",))).decision == "resume"
        assert plan_dataset(state, Options(accept=(problem.code,))).decision == "resume"
        assert plan_dataset(state, Options(accept=("faulty:B4", "engine"))).decision == "blocked"


def test_ours_with_the_same_options_is_recognised() -> None:
    options = Options(datasets=("B2",))
    ours = Process(
        1, ours=True, settings=options.to_json(), release="a", datasets=("B2_opencodeinstruct",), budget=Budget(10)
    )
    states = incident_states()
    assert needless(ours, states, options, "a").same_options
    assert needless(ours, states, replace(options, drain_s=1.0), "a").same_options
    assert not needless(ours, states, options, "b").same_options
    assert not needless(ours, states, Options(), "a").same_options


@pytest.mark.parametrize("width", [80, 120])
def test_the_trace_fits_and_says_what_decides(width: int) -> None:
    text = plain(trace_lines(incident_plan().to_json(), width))
    assert max(map(len, text.splitlines())) <= width
    flat = " ".join(text.split())
    for words in (
        "nothing has been changed",
        "6 datasets work, 2 skip",
        "budget met: 10.45 M ≥ 10 M; sample-count skip bypassed (budget > 0)",
        "2 answers kept, 5,998 prompts left",
        "before it started",
        "untokenized today: B1-000000, B1-000001",
        "another writer: pid 911",
        "IF LEFT ALONE pid 911 would write 18.0 M tokens nobody needs (B2 15.0 M, B7 1.47 M, B8 1.47 M)",
        "4,088 more answers of B2",
        "does not know --token-budget",
        "drops --max-samples 7000",
        "temperature 1.0, top_p 0.95 from generation_config.json",
    ):
        assert words in flat, words
    rows = [line for line in text.splitlines() if line[1:3].strip() in ("", "!", "✗") and line[3:5].startswith("B")]
    assert [row[3:5] for row in rows] == ["B3", "B1", "B2", "B4", "B5", "B6", "B7", "B8"]


@pytest.mark.parametrize("full", [False, True])
def test_the_trace_fits_every_width(full: bool) -> None:
    plan = incident_plan().to_json()
    plan["preflight"] = [
        {
            "check": "imports",
            "level": "blocker",
            "detail": "no working httpx " * 9,
            "remedy": "python3 -m pip install " * 5,
        }
    ]
    for width in range(40, 140):
        lines = trace_lines(plan, width, full=full)
        assert max(len(line.text) for line in lines) <= width


def test_the_trace_can_be_read_in_ascii() -> None:
    assert plain(trace_lines(incident_plan().to_json(), 120, full=True), ascii_only=True).isascii()


def test_a_hostile_plan_is_shown_as_text() -> None:
    plan = incident_plan().to_json()
    plan["datasets"][0]["title"] = "\x1b[2J[/foo]\u202e"
    plan["running"][0]["script"] = "x\x1b]0;y\x07.py"
    plan["preflight"] = [{"check": "hold", "level": "blocker", "detail": "a\r\nb\x1b[31m", "remedy": None}, 7]
    plan["totals"] = {"expected_tokens": "many"}
    text = plain(trace_lines(plan, 80))
    assert not [char for char in text if char != "\n" and not char.isprintable()]


def test_same_keys_are_claimed_only_where_every_record_has_them() -> None:
    """Assumption 3 of the day: the same keys were taken for the same schema."""
    good = incident_states()[2]
    assert "same keys, types and ranges" in steps_of(plan_dataset(good, Options()))["settings"][1]
    mixed = replace(good, records=RecordCounts(valid=1, repairable=1))
    assert "not all of today's form" in steps_of(plan_dataset(mixed, Options()))["settings"][1]
