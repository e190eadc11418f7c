"""What the screens say of a state: nothing that is not known yet, nothing alarming about what is in order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.text import Text

from console.model import Decision, Gpu, Gpus
from console.observed import Observed, observe
from console.present_engine import gpu_lines, gpu_summary, has_work
from console.present_process import process_lines
from console.present_table import Width, columns, rows
from console.present_top import top_line
from console.view import Link, LinkState, Rate, View
from remote.options import Budget, Options
from tests.support.recorded import demo_desk, desk_of, snapshot_json, view_of
from tests.support.views import AT, BUDGET, dataset, generator, snapshot
from widgets.tones import ACT, LOOK

LIVE = Link(LinkState.LIVE, "gpu-07", age_s=0.4, skew_s=0.0)


def seen(**changes: object) -> View:
    """A live view of a snapshot with these parts."""
    return View(now=AT, link=LIVE, options=Options(token_budget=Budget(BUDGET)), snapshot=snapshot(**changes))


def said(lines: list[Text]) -> str:
    return "\n".join(line.plain for line in lines)


def tones(text: Text) -> set[str]:
    return {str(span.style) for span in text.spans} | {str(text.style)}


@pytest.mark.parametrize(("verdict", "loud"), [("running", True), ("exited", False)])
def test_gpus_that_idle_are_news_only_while_there_is_work(verdict: str, loud: bool) -> None:
    idle = (Gpu(index=0, utilisation=0.0), Gpu(index=1, utilisation=2.0))
    made = snapshot(generator=generator(verdict=verdict), gpus=Gpus(rows=idle))
    assert has_work(made) == loud
    summary = gpu_summary(idle, has_work(made))
    assert ("idle" in summary.plain) == loud and (LOOK in tones(summary)) == loud
    assert any(LOOK in tones(line) for line in gpu_lines(idle, "", 60, 2, has_work(made))) == loud


def test_a_stray_is_told_apart_from_one_whose_work_cannot_be_known() -> None:
    desk, _ = demo_desk("incident")
    found = desk.view.snapshot
    assert found is not None and found.writers
    unknown = replace(found, writers=(replace(found.writers[0], needless_tokens=None),))
    early = replace(unknown, pending=("plan",))
    assert "cannot be told" in said(process_lines(replace(desk.view, snapshot=unknown)))
    assert "being reckoned" in said(process_lines(replace(desk.view, snapshot=early)))


def test_a_first_look_is_no_change() -> None:
    raw = snapshot_json("running")
    first = observe(Observed(), view_of({**raw, "engine": {"health": "unknown"}, "pending": ["engine health"]}))
    later = observe(first, view_of({**raw, "seq": raw["seq"] + 1, "at": raw["at"] + 1}))
    assert not any("engine" in line for line in later.lines)
    down = observe(later, view_of({**raw, "seq": raw["seq"] + 2, "at": raw["at"] + 2, "engine": {"health": "down"}}))
    assert any("engine  healthy → down" in line for line in down.lines)


def test_a_run_that_has_just_begun_promises_no_time() -> None:
    early = seen(generator=generator(since=AT - 60, answers=3, in_flight=64))
    assert "time to go: after the first answers" in said(process_lines(early))
    assert "time to go" not in said(process_lines(seen(generator=generator(verdict="exited", since=AT - 60))))


@pytest.mark.parametrize(
    ("state", "word"), [("waiting", "blocked"), ("partial", "blocked"), ("budget-met", "budget met")]
)
def test_what_a_restart_leaves_out_does_not_wait(state: str, word: str) -> None:
    row = dataset(state=state, in_work=False, inference=Decision("blocked", "faulty"))
    view = seen(datasets=(row,))
    cell = rows(view, columns(Width.WIDE, view.options.token_budget))[0].cells["state"]
    assert cell.plain == word and (ACT in tones(cell)) == (word == "blocked")


@pytest.mark.parametrize("rate", [0.4, 9.96, 590.0, 1_170.0, 9_994.0, 9_996.0, 11_700.0, 123_456.0])
def test_a_rate_fits_its_column_and_keeps_its_size(rate: float) -> None:
    view = replace(seen(), rates={"B4_mixturethoughts": Rate(rate, "counted")})
    cols = columns(Width.WIDE, view.options.token_budget)
    cell = rows(view, cols)[0].cells["rate"].plain
    assert len(cell) <= next(column.width for column in cols if column.id == "rate")
    number = cell.removesuffix("/s")
    value = float(number.removesuffix("k").replace(",", "")) * (1000 if number.endswith("k") else 1)
    assert value == pytest.approx(rate, rel=0.01)


@pytest.mark.parametrize("columns_", [60, 80, 120])
def test_a_link_that_failed_for_good_says_what_its_key_does(columns_: int) -> None:
    desk, _ = desk_of(None, link=Link(LinkState.FAILED, "gpu-07", error="no", code="not-let-in"))
    assert "R tries again" in top_line(desk.view, columns_, Width.COMPACT).plain


@pytest.mark.parametrize("width", list(Width))
def test_a_count_is_never_cut_to_another_count(width: Width) -> None:
    big = dataset(prompts=1_000_000, responses=1_234_567, answered=1_234_567, tokenized=999_999)
    cols = columns(width, Budget(BUDGET))
    (row,) = rows(seen(datasets=(big,)), cols)
    for column in cols:
        if column.id in ("prompts", "responses", "tokenized", "answers"):
            assert row.cells[column.id].cell_len <= column.width, (column, row.cells[column.id])
