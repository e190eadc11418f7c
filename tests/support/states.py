"""States of datasets for tests of the plan: any that can be, and those of the incident."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from remote.facts import DatasetState, Process, Rate, RecordCounts, SettingsChange, Tokenization
from remote.options import Budget, Options

NOW = 1_700_000_000.0
FOLDERS = (
    "B1_glaive",
    "B2_opencodeinstruct",
    "B3_magicoder",
    "B4_mixturethoughts",
    "B5_openthoughts",
    "B6_ultrachat",
    "B7_sharegpt",
    "B8_sweagent",
)
BUDGETS = (1, 1000, 100_000, 10_000_000)
"""Drawn for budgets and for tokens alike, so that a budget is met exactly now and then."""


@st.composite
def dataset_states(draw: st.DrawFn) -> DatasetState:
    """Any consistent state: what is answered is a prompt, what is counted is in the file.

    What decides is drawn and can be shrunk; what is only told besides comes from one drawn seed.
    """
    prompts = draw(st.one_of(st.none(), st.integers(0, 60), st.integers(0, 20_000)))
    answered = draw(st.one_of(st.sampled_from((0, prompts)), st.integers(0, prompts))) if prompts else 0
    left = (prompts or 0) - answered
    unusable = draw(st.sampled_from((0, 0, 1, 19, 20, 21, 40)))
    tokens = draw(st.one_of(st.sampled_from(BUDGETS), st.integers(answered, answered * 5000))) if answered else 0
    there = draw(st.sampled_from(("here", "here", "here", "missing", "unreadable", "pretokenized")))
    more = random.Random(draw(st.integers(0, 2**32)))
    duplicates, orphans = more.randrange(4), more.randrange(4) if prompts is not None else None
    repairable = more.randint(0, answered)
    return DatasetState(
        folder=draw(st.sampled_from((*FOLDERS, "A1_extra", "C9_other"))),
        at=NOW,
        kind="pretokenized" if there == "pretokenized" else "prompts",
        exists=there != "missing",
        readable=there != "unreadable",
        prompts=prompts,
        bad_prompts=more.randrange(3),
        trailing_assistant=more.randrange(3),
        responses=answered + unusable + duplicates + (orphans or 0),
        tokenized=more.choice((None, more.randint(0, answered))),
        records=RecordCounts(answered - repairable, repairable, unusable, duplicates, orphans, more.randrange(2)),
        tokens=tokens,
        answered=answered,
        set_aside=draw(st.one_of(st.just(left), st.integers(0, left))),
        all_records=answered + more.randrange(100),
        all_tokens=tokens + more.randrange(200_000),
        rate=more.choice((None, Rate(more.uniform(0.1, 1e5), "measured"))),
        gpus=more.choice((None, 1, 8)),
        responses_changed_at=more.choice((None, NOW - more.uniform(0, 1e6))),
        growing=more.random() < 0.5,
        processes=tuple(some_process(more) for _ in range(more.randrange(3))),
        settings_changes=(SettingsChange("top_p", "0.9", "0.95", 3),) * more.randrange(2),
        unrecorded=more.randint(0, answered),
        tokenization=draw(
            st.sampled_from(
                (
                    Tokenization("none", "no-answers"),
                    Tokenization("skip", "up-to-date"),
                    Tokenization("rebuild", "no-meta", "untokenized today: 7", None, 2.0),
                    Tokenization("rebuild", "fingerprint-changed", "file tokenizer.json", None, 2.0),
                )
            )
        ),
    )


def some_process(more: random.Random) -> Process:
    """A process that writes, with or without flags that say how far."""
    return Process(
        pid=more.randint(2, 99_999),
        ours=more.random() < 0.5,
        since=more.choice((None, NOW - more.uniform(0, 1e6))),
        argv=("python", "run_inference.py"),
        max_samples=more.choice((None, more.randint(1, 12_000))),
        budget=more.choice((None, Budget(0), Budget(1000), Budget(10_000_000))),
        flags_known=more.random() < 0.75,
        datasets=tuple(more.sample(FOLDERS, more.randrange(3))),
    )


def processes() -> st.SearchStrategy[Process]:
    """Any such process."""
    return st.integers(0, 2**32).map(lambda seed: some_process(random.Random(seed)))


@st.composite
def options(draw: st.DrawFn) -> Options:
    """Options that can change a decision."""
    per = draw(st.dictionaries(st.sampled_from(("B2", "B3_magicoder", "A1")), st.integers(0, 10**6), max_size=2))
    return Options(
        token_budget=Budget(draw(st.sampled_from((0, *BUDGETS))), per),
        max_samples=draw(st.one_of(st.none(), st.integers(1, 60), st.integers(1, 12_000))),
        datasets=draw(st.sampled_from((None, None, ("B1", "B2_opencodeinstruct"), ("A1",)))),
        shuffle=draw(st.sampled_from((None, 7))),
        retokenize=draw(st.sampled_from(("auto", "auto", "never"))),
        retry_failed=draw(st.booleans()),
        accept=draw(st.sampled_from(((), ("faulty",), ("faulty:B3",)))),
        concurrency=draw(st.sampled_from((1, 64))),
        price_per_hour=draw(st.sampled_from((None, 16.5))),
    )


def incident_process() -> Process:
    """The older script: on B2, 7,000 samples, no budget."""
    return Process(
        pid=911,
        since=NOW - 5 * 3600 - 120,
        argv=("python", "run_inference.py", "--max-samples", "7000"),
        max_samples=7000,
        datasets=("B2_opencodeinstruct",),
        script="/workspace/run_inference.py",
        script_digest="5e1c0a7d90b2",
        knows_token_budget=False,
        identity={"pid": 911, "start_ticks": 1, "boot_id": "b", "pid_ns": "n"},
    )


def incident_states(rate_tokens_s: float | None = 590.0) -> list[DatasetState]:
    """The eight datasets on the day of the incident (DOMAIN), as the scan would give them."""
    prompts = (10_000, 7_000, 6_000, 4_500, 3_600, 2_600, 9_000, 14_000)
    answered = {0: (10_000, 10_450_000, 9_998), 1: (2_912, 10_700_000, 2_912), 2: (2, 4_400, None)}
    all_records = sum(count for count, _, _ in answered.values())
    all_tokens = sum(tokens for _, tokens, _ in answered.values())
    process = incident_process()
    states = []
    for index, folder in enumerate(FOLDERS):
        count, tokens, tokenized = answered.get(index, (0, 0, None))
        states.append(
            DatasetState(
                folder,
                at=NOW,
                prompts=prompts[index],
                responses=count,
                tokenized=tokenized,
                records=RecordCounts(valid=count),
                tokens=tokens,
                answered=count,
                all_records=all_records,
                all_tokens=all_tokens,
                rate=Rate(rate_tokens_s, "measured now") if rate_tokens_s else None,
                gpus=8,
                bytes_per_token=7.0,
                responses_changed_at=None if not count else NOW - 1 if index == 1 else NOW - 8 * 3600,
                growing=index == 1,
                processes=(process,),
                unrecorded=count,
                tokenization=(
                    Tokenization("rebuild", "no-meta", "untokenized today: B1-000000, B1-000001", None, 5.2)
                    if tokenized
                    else Tokenization("rebuild", "no-file", "never tokenized", None, 0.1)
                    if count
                    else Tokenization("none", "no-answers")
                ),
            )
        )
    return states
