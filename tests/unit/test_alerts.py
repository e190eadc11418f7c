"""Every alert is raised by what it is about, tells a sentence and a next step, does not flap, and is told once."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from console import keys
from console.alerts import AlertHistory, EventKind, events, judge
from console.model import Ack, Decision, Disk, Engine, Exit, Gpu, Gpus, Hold, Schema, Writer
from console.thresholds import Thresholds, read_thresholds
from console.view import Alert, Level, Link, LinkState, View
from remote.errors import OperatorError
from tests.support.views import AT, dataset, generator, view

LIMITS = Thresholds()
KEYS = {name for key in (*keys.MAIN, *keys.EVERYWHERE) for name in key.keys.split(",")}
STRAY = Writer(pid=911, argv=("python", "run_inference.py", "--max-samples", "7000"), since=AT - 18_000)

CASES: dict[str, dict[str, Any]] = {
    "process-died": {"generator": generator(verdict="lost", detail="it and its supervisor were killed")},
    "stopped": {"generator": generator(verdict="exited", exit=Exit(code=3, reason="stopped", by="ann@laptop", at=AT))},
    "no-new-answer": {"datasets": (dataset(last_answer_at=AT - 700),)},
    "generator-silent": {"generator": generator(progress_at=AT - 120)},
    "engine-unhealthy": {"engine": Engine(url="http://x", health="down", detail="connection refused")},
    "engine-restarted": {"engine": Engine(health="healthy", since=AT - 60)},
    "other-model": {"engine": Engine(health="healthy", model_path="/models/llama", expected_model=False)},
    "faulty": {
        "datasets": (
            dataset(schema=Schema(9000, 0, 1000, 0, 0, 0), responses=10_000, inference=Decision("blocked", "faulty")),
        )
    },
    "unreadable": {"datasets": (dataset(state="faulty"),)},
    "prompt-mismatch": {"datasets": (dataset(prompt_mismatches=5),)},
    "length-share": {"datasets": (dataset(finish_reasons={"stop": 10, "length": 20}),)},
    "no-eos": {"datasets": (dataset(no_eos=10),)},
    "no-think": {"datasets": (dataset(sampled=40, no_think=30),)},
    "unreachable": {"datasets": (dataset(prompts_left=10),)},
    "disk": {"disk": Disk(free_bytes=10**9, total_bytes=10**12, free_inodes=10**6)},
    "inodes": {"disk": Disk(free_bytes=10**12, total_bytes=10**12, free_inodes=5)},
    "no-budget": {"writers": (replace(STRAY, datasets=("B2_opencodeinstruct",)),)},
    "second-writer": {"writers": (replace(STRAY, token_budget="1000"),)},
    "unknown-writer": {
        "generator": generator(verdict="never-started"),
        "datasets": (dataset(growing=True, in_work=True),),
    },
    "partly-blind": {"problems": ("gpus: nvidia-smi has hung for 60 s",)},
    "first-look": {"problems": ("datasets: reading every record for the first time, 40 % of 1.40 GB",)},
    "misread": {"misread": ("snapshot.at should be a number",)},
    "hold": {"hold": Hold("bob@desk", "extraction reads", AT - 60)},
    "paused": {"generator": generator(paused=True)},
}


def after(seconds: float, made: View, history: AlertHistory | None = None) -> tuple[AlertHistory, tuple[Alert, ...]]:
    """Judge twice, `seconds` apart, as something that lasts."""
    history, _ = judge(made, history or AlertHistory(looked=True), LIMITS, 0.0)
    return judge(made, history, LIMITS, seconds)


def test_a_healthy_run_raises_nothing() -> None:
    assert after(3600, view())[1] == ()


@pytest.mark.parametrize("code", CASES)
def test_each_alert_is_raised_by_what_it_is_about(code: str) -> None:
    _, alerts = after(100, view(**CASES[code]))
    found = [alert for alert in alerts if alert.code == code]
    assert found, [alert.code for alert in alerts]
    alert = found[0]
    assert alert.sentence and alert.next_step and "None" not in alert.sentence
    assert alert.press in {"", *KEYS}, "the key exists"


@pytest.mark.parametrize("code", CASES)
def test_each_alert_clears_and_is_told_once_each_way(code: str) -> None:
    history, raised = after(100, view(**CASES[code]))
    again, still = judge(view(**CASES[code]), history, LIMITS, 101.0)
    assert [event.alert.code for event in events((), raised) if event.alert.code == code] == [code]
    assert events(raised, still) == ()
    later, waning = judge(view(), again, LIMITS, 102.0)
    _, gone = judge(view(), later, LIMITS, 130.0)
    assert code in {alert.code for alert in waning}, "it lingers a little, so that it cannot flap"
    assert gone == ()
    assert {event.kind for event in events(waning, gone)} == {EventKind.RECOVERED}


def test_the_incident_in_one_sentence() -> None:
    b2 = dataset(
        "B2_opencodeinstruct", tokens=107_000, in_work=True, growing=True, inference=Decision("skip", "budget-met")
    )
    stray = replace(STRAY, datasets=("B2_opencodeinstruct",), needless_tokens=18_000_000)
    _, alerts = judge(
        view(datasets=(b2,), writers=(stray,), generator=generator(verdict="never-started")), AlertHistory(), LIMITS, 0
    )
    assert alerts[0].level is Level.CRITICAL and alerts[0].since == STRAY.since and alerts[0].press == "d"
    assert alerts[0].sentence == (
        "B2 is past its budget and pid 911, without --token-budget, still writes it; left alone it makes 18.00 M needless tokens"
    )


def test_a_busy_moment_of_the_engine_calls_nobody() -> None:
    down = view(engine=Engine(health="unhealthy"))
    history, alerts = judge(down, AlertHistory(looked=True), LIMITS, 0)
    assert alerts == ()
    history, alerts = judge(view(), history, LIMITS, 10)
    history, alerts = judge(down, history, LIMITS, 30)
    assert alerts == ()
    history, alerts = judge(down, history, LIMITS, 60)
    assert [alert.code for alert in alerts] == ["engine-unhealthy"]


def test_what_is_so_at_the_first_look_is_said_at_once() -> None:
    _, alerts = judge(view(engine=Engine(health="down")), AlertHistory(), LIMITS, 0)
    assert [alert.code for alert in alerts] == ["engine-unhealthy"]


def test_idle_gpus_are_only_believed_after_minutes() -> None:
    idle = view(gpus=Gpus(rows=(Gpu(index=0, utilisation=1.0),)))
    history, _ = judge(view(), AlertHistory(), LIMITS, 0)
    history, alerts = judge(idle, history, LIMITS, 200)
    assert alerts == ()
    _, alerts = judge(idle, history, LIMITS, 301)
    assert [alert.code for alert in alerts] == ["gpu-idle"]


def test_failed_requests_count_by_their_share_of_the_last_minutes() -> None:
    history = AlertHistory()
    for minute in range(11):
        failing = generator(answers=30 + 10 * minute, errors={"timeout": 100 + 10 * minute})
        history, alerts = judge(view(generator=failing), history, LIMITS, 60.0 * minute)
    assert [alert.code for alert in alerts] == ["errors"]
    assert "50 %" in alerts[0].sentence and "timeout" in alerts[0].sentence


def test_errors_of_yesterday_are_forgotten() -> None:
    history = AlertHistory()
    for minute in range(11):
        history, alerts = judge(
            view(generator=generator(answers=30 + 10 * minute, errors={"timeout": 5000})),
            history,
            LIMITS,
            60.0 * minute,
        )
    assert alerts == ()


def test_new_unusable_records_are_told_and_old_ones_are_known() -> None:
    def with_unusable(number: int) -> View:
        return view(datasets=(dataset(schema=Schema(30, 0, number, 0, 0, 0)),))

    history, alerts = judge(with_unusable(3), AlertHistory(), LIMITS, 0)
    assert alerts == ()
    _, alerts = judge(with_unusable(5), history, LIMITS, 60)
    assert alerts[0].code == "unusable" and "2 new" in alerts[0].sentence


def test_a_router_that_calls_itself_healthy_hides_no_dead_worker() -> None:
    made = view(engine=Engine(url="http://x", health="healthy"), generator=generator(engine_state="down"))
    history, _ = judge(made, AlertHistory(), LIMITS, 0)
    _, alerts = judge(made, history, LIMITS, LIMITS.engine_unhealthy_s + 1)
    assert [alert.code for alert in alerts] == ["engine-unhealthy"] and "as the run finds it" in alerts[0].sentence


def test_a_plan_older_than_the_counts_raises_nothing() -> None:
    rows = (dataset(state="missing", schema=Schema(0, 0, 0, 0, 0, 0), inference=Decision("blocked", "faulty")),)
    assert judge(view(datasets=rows), AlertHistory(), LIMITS, 0)[1] == ()


def test_weights_that_change_during_the_run_are_told() -> None:
    history, _ = judge(view(engine=Engine(health="healthy", weight_version="v1")), AlertHistory(), LIMITS, 0)
    _, alerts = judge(view(engine=Engine(health="healthy", weight_version="v2")), history, LIMITS, 5)
    assert [alert.code for alert in alerts] == ["weights-changed"]


def test_answers_that_no_run_tokenized_are_work_left_too() -> None:
    ended = generator(verdict="exited", exit=Exit(code=5, reason="disk", detail="the disk is full", at=AT - 60))
    row = dataset(inference=Decision("skip", "budget-met"), tokenization=Decision("rebuild", "new-records"))
    (alert,) = judge(view(generator=ended, datasets=(row,)), AlertHistory(), LIMITS, 0)[1]
    assert (alert.code, alert.level) == ("process-died", Level.CRITICAL)
    assert alert.sentence == "the generator died with B4 not tokenized: the disk is full"
    done = dataset(inference=Decision("skip", "budget-met"), tokenization=Decision("skip", "up-to-date"))
    assert judge(view(generator=ended, datasets=(done,)), AlertHistory(), LIMITS, 0)[1] == ()


def test_a_stale_link_keeps_what_was_known_and_adds_itself() -> None:
    history, alerts = judge(view(**CASES["process-died"]), AlertHistory(), LIMITS, 0)
    link = Link(LinkState.STALE, "gpu-07", age_s=90.0, skew_s=0.0)
    _, alerts = judge(view(link=link, **CASES["process-died"]), history, LIMITS, 90)
    assert {alert.code for alert in alerts} == {"process-died", "stale-link"}


def test_a_changed_host_key_is_critical_before_the_first_look() -> None:
    link = Link(LinkState.CHANGED_KEY, "gpu-07", error="the host key of gpu-07 changed", remedy="ssh-keygen -R gpu-07")
    blind = replace(view(link=link), snapshot=None)
    _, alerts = judge(blind, AlertHistory(), LIMITS, 0)
    assert [(alert.code, alert.level) for alert in alerts] == [("link-failed", Level.CRITICAL)]


def test_clock_skew_is_told_in_words() -> None:
    link = Link(LinkState.LIVE, "gpu-07", age_s=0.1, skew_s=-184.0)
    _, alerts = judge(view(link=link), AlertHistory(), LIMITS, 0)
    assert alerts[0].code == "clock-skew" and "3 m 04 s behind" in alerts[0].sentence


def test_ages_are_never_negative_whatever_the_clocks_say() -> None:
    link = Link(LinkState.LIVE, "gpu-07", age_s=0.1, skew_s=-86_400.0)
    assert view(link=link).age_s(AT) == 0.0


def test_an_acknowledgement_holds_for_another_console_and_not_for_the_next_occurrence() -> None:
    acks = (Ack("engine-unhealthy", "bob@desk", AT - 100),)
    down = view(engine=Engine(health="down"), acks=acks)
    history, alerts = judge(down, AlertHistory(), LIMITS, 0)
    assert alerts[0].acked_by == "bob@desk"
    assert replace(down, alerts=alerts).worst is None
    # It recovered, and fails again: that was not what bob has seen.
    history, _ = judge(view(acks=acks), history, LIMITS, 10)
    history, _ = judge(view(acks=acks), history, LIMITS, 100)
    history, _ = judge(down, history, LIMITS, 200)
    _, alerts = judge(down, history, LIMITS, 300)
    assert alerts[0].acked_by == ""


def test_the_loudest_and_oldest_stands_first() -> None:
    mixed = {**CASES["hold"], **CASES["other-model"], **CASES["disk"], **CASES["partly-blind"]}
    _, alerts = after(100, view(**mixed))
    ranks = [alert.level.rank for alert in alerts]
    assert ranks == sorted(ranks, reverse=True) and ranks[0] == 2 and ranks[-1] == 0


def test_an_alert_that_gets_worse_is_told_again() -> None:
    one = Alert("disk", "disk", Level.WARNING, AT, "s")
    worse = replace(one, level=Level.CRITICAL)
    assert [event.kind for event in events((one,), (worse,))] == [EventKind.WORSE]
    assert events((worse,), (one,)) == ()


def test_thresholds_name_what_is_wrong_with_them() -> None:
    assert read_thresholds({"no_answer_s": 60}, "config.toml").no_answer_s == 60.0
    with pytest.raises(OperatorError, match="did you mean no_answer_s"):
        read_thresholds({"no_anwser_s": 60}, "config.toml")
    with pytest.raises(OperatorError, match="from 0 to 1"):
        read_thresholds({"length_share": 30}, "config.toml")
    with pytest.raises(OperatorError, match="0 or more"):
        read_thresholds({"stale_s": True}, "config.toml")


def test_every_alert_has_its_row_in_the_docs_and_every_row_an_alert() -> None:
    folder = Path(__file__).parents[2]
    sources = "".join(path.read_text() for path in sorted((folder / "console").glob("alert_*.py")))
    raised = {*re.findall(r'Finding\(\s*f?"([a-z-]+)', sources), *re.findall(r'^\s+\("([a-z-]+)", ', sources, re.M)}
    page = (folder / "docs" / "alerts.md").read_text()
    documented = set(re.findall(r"^\| `([a-z-]+)` \|", page, re.M))
    assert raised == documented
    named = set(re.findall(r"`([a-z_]+)`", page.partition("## The link")[0]))
    assert {item.name for item in dataclasses.fields(Thresholds)} <= named
