"""Views for tests of what is pure on the operator's side: a healthy run by default, changed by keyword."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from console.model import Dataset, Decision, Engine, Generator, Gpu, Gpus, Schema, Snapshot
from console.view import Link, LinkState, View
from remote.layout import DECLARED
from remote.options import Budget, Options

AT = 1_800_000_000.0
BUDGET = 100_000


def dataset(folder: str = "B4_mixturethoughts", **changes: Any) -> Dataset:
    """A dataset at work: 30 of 100 prompts answered, 1,000 tokens each."""
    id, title = DECLARED[folder]
    row = Dataset(
        folder=folder,
        id=id,
        title=title,
        kind="prompts",
        state="running",
        order=list(DECLARED).index(folder),
        prompts=1000,
        responses=30,
        tokenized=0,
        tokens=30_000,
        budget=BUDGET,
        answered=30,
        prompts_left=970,
        finish_reasons={"stop": 30},
        schema=Schema(valid=30, repairable=0, unusable=0, duplicates=0, orphans=0, torn=0),
        inference=Decision("resume", "partial"),
        in_work=True,
        in_flight=16,
        last_answer_at=AT - 5,
    )
    return replace(row, **changes)


def generator(**changes: Any) -> Generator:
    """Our generator, up for an hour."""
    made = Generator(
        verdict="running",
        run_id="R1",
        pid=4242,
        supervisor_pid=4241,
        token_budget=str(BUDGET),
        since=AT - 3600,
        in_flight=64,
        paused=False,
        in_work=("B4_mixturethoughts",),
        rate_tokens_s=500.0,
        answers=30,
        retries=0,
        engine_state="ok",
        progress_at=AT - 1,
    )
    return replace(made, **changes)


def snapshot(**changes: Any) -> Snapshot:
    """One dataset in work on a healthy engine."""
    made = Snapshot(
        seq=1,
        at=AT,
        root="/data",
        datasets=(dataset(),),
        generator=generator(),
        engine=Engine(url="http://127.0.0.1:30000", health="healthy", since=AT - 7200),
        gpus=Gpus(rows=(Gpu(index=0, utilisation=97.0), Gpu(index=1, utilisation=95.0))),
    )
    return replace(made, **changes)


def view(now: float = AT, link: Link | None = None, **changes: Any) -> View:
    """A live view of `snapshot(**changes)`."""
    return View(
        now=now,
        link=link or Link(LinkState.LIVE, "gpu-07", last_seen_at=now, age_s=0.2, skew_s=0.0),
        options=Options(token_budget=Budget(BUDGET)),
        snapshot=snapshot(**changes),
    )
