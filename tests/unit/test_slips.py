"""Slips of the hand: a budget one key wrong, a dataset that is none, a root one letter off; each is said before anything is done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote.check import OK, WARNING, Check
from remote.errors import OperatorError
from remote.layout import Layout
from remote.nearby import nearby
from remote.options import Options, parse_budget
from remote.plan import plan_root
from remote.preflight_budget import budget
from remote.preflight_look import Look
from remote.records import Rules
from remote.runs import Run
from remote.scan import scan_root
from tests.support.states import incident_states


def check(text: str, last: str | None = None, **options: object) -> Check:
    states = incident_states()
    chosen = replace(Options(token_budget=parse_budget(text)), **options)  # type: ignore[arg-type]
    run = Run("r", 0.0, Options(token_budget=parse_budget(last)).to_json()) if last is not None else None
    return budget(Look(Layout(Path("/none")), chosen, None, states, plan_root(states, chosen), last_run=run))  # type: ignore[arg-type]


def test_the_budget_of_the_incident_is_fine() -> None:
    assert check("10M").level == OK
    assert check("0").level == OK, "no budget is a choice of its own"


@pytest.mark.parametrize("text", ["10", "500", "10M,B4=10"])
def test_a_budget_of_less_than_one_answer_is_asked_about(text: str) -> None:
    said = check(text)
    assert said.level == WARNING and "less than one answer" in said.detail and "--token-budget 10M" in said.remedy
    assert ("B5" in said.detail) == ("B4=" not in text), "only the datasets that it is about"


def test_a_budget_that_is_met_already_is_not_asked_about() -> None:
    said = check("10M,B1=10,B2=10")
    assert said.level == OK


@given(st.integers(1, 400), st.integers(1, 400))
def test_ten_times_the_last_budget_or_a_tenth_of_it_is_asked_about(last: int, now: int) -> None:
    said = check(f"{now}M", f"{last}M")
    far = now * 10 <= last or last * 10 <= now
    assert (said.level == WARNING) == far
    if far:
        assert f"where the last run had {last} M" in said.detail and f"--token-budget {last}M" in said.remedy
    elif last != now:
        assert f"the last run had {last}M" in said.detail


@pytest.mark.parametrize(("options", "name"), [({}, "b4"), ({"datasets": ("B3", "B9")}, "B9")])
def test_a_name_that_is_no_dataset_is_said(options: dict[str, object], name: str) -> None:
    said = check("10M,b4=20M" if name == "b4" else "10M", **options)
    assert said.level == WARNING and f"names {name}" in said.detail


def test_what_an_older_run_wrote_of_its_budget_is_no_obstacle() -> None:
    states = incident_states()
    for strange in ({}, {"token_budget": "10M"}, {"token_budget": {"default": None}}):
        run = Run("r", 0.0, strange)
        look = Look(Layout(Path("/none")), Options(), None, states, plan_root(states, Options()), last_run=run)  # type: ignore[arg-type]
        assert budget(look).level == OK


def test_a_root_one_letter_off_names_the_one_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "synth_100k" / "prepared").mkdir(parents=True)
    (tmp_path / "synth_100k" / "notes").mkdir()
    for asked, meant in (("synth_100k/prepard", "synth_100k/prepared"), ("synth100k/prepared", "synth_100k")):
        with pytest.raises(OperatorError) as caught:
            scan_root(tmp_path / asked, Rules())
        assert caught.value.code == "no-root"
        assert f"{tmp_path / meant} is there" in caught.value.message


def test_where_nothing_is_alike_it_says_how_far_the_path_goes(tmp_path: Path) -> None:
    assert nearby(tmp_path / "zzz" / "prepared") == f"{tmp_path} is there, with no zzz in it"
    hostile = tmp_path / "pre\x1b[31mpared"
    hostile.mkdir()
    assert "\x1b" not in nearby(tmp_path / "pre[31mpared")
