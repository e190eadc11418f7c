"""States of datasets for tests of the plan: any that can be, and those of the incident."""

from __future__ import annotations

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


@st.composite
def dataset_states(draw: st.DrawFn, folder: str | None = None) -> DatasetState:
    """Any consistent state: what is answered is a prompt, what is counted is in the file."""
    prompts = draw(st.one_of(st.none(), st.integers(0, 60), st.integers(0, 20_000)))
    answered = draw(st.integers(0, prompts)) if prompts else 0
    unusable = draw(st.one_of(st.just(0), st.integers(0, 40)))
    duplicates, orphans = draw(st.integers(0, 3)), draw(st.integers(0, 3)) if prompts is not None else None
    repairable = draw(st.integers(0, answered))
    records = RecordCounts(answered - repairable, repairable, unusable, duplicates, orphans, draw(st.integers(0, 1)))
    responses = answered + unusable + duplicates + (orphans or 0)
    tokens = draw(st.integers(answered, answered * 5000)) if answered else 0
    left = (prompts or 0) - answered
    return DatasetState(
        folder=folder or draw(st.sampled_from((*FOLDERS, "A1_extra", "C9_other"))),
        at=NOW,
        kind=draw(st.sampled_from(("prompts", "prompts", "prompts", "pretokenized"))),
        exists=draw(st.sampled_from((True, True, True, True, False))),
        readable=draw(st.sampled_from((True, True, True, True, False))),
        prompts=prompts,
        bad_prompts=draw(st.integers(0, 2)),
        trailing_assistant=draw(st.integers(0, 2)),
        responses=responses,
        tokenized=draw(st.one_of(st.none(), st.integers(0, answered))),
        records=records,
        tokens=tokens,
        answered=answered,
        set_aside=draw(st.integers(0, left)),
        all_records=answered + draw(st.integers(0, 100)),
        all_tokens=tokens + draw(st.integers(0, 200_000)),
        rate=draw(st.one_of(st.none(), st.builds(Rate, st.floats(0.1, 1e5), st.just("measured")))),
        gpus=draw(st.sampled_from((None, 1, 8))),
        responses_changed_at=draw(st.one_of(st.none(), st.floats(NOW - 1e6, NOW))),
        growing=draw(st.booleans()),
        processes=tuple(draw(st.lists(processes(), max_size=2))),
        settings_changes=tuple(draw(st.lists(st.just(SettingsChange("top_p", "0.9", "0.95", 3)), max_size=1))),
        unrecorded=draw(st.integers(0, answered)),
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


@st.composite
def processes(draw: st.DrawFn) -> Process:
    """A process that writes, with or without flags that say how far."""
    return Process(
        pid=draw(st.integers(2, 99_999)),
        ours=draw(st.booleans()),
        since=draw(st.one_of(st.none(), st.floats(NOW - 1e6, NOW))),
        argv=("python", "run_inference.py"),
        max_samples=draw(st.one_of(st.none(), st.integers(1, 12_000))),
        token_budget=draw(st.sampled_from((None, 0, 1000, 10_000_000))),
        flags_known=draw(st.sampled_from((True, True, True, False))),
        datasets=tuple(draw(st.lists(st.sampled_from(FOLDERS), max_size=2, unique=True))),
    )


@st.composite
def options(draw: st.DrawFn) -> Options:
    """Options that can change a decision."""
    per = draw(st.dictionaries(st.sampled_from(("B2", "B3_magicoder", "A1")), st.integers(0, 10**6), max_size=2))
    return Options(
        token_budget=Budget(draw(st.sampled_from((0, 1, 1000, 100_000, 10_000_000))), per),
        max_samples=draw(st.one_of(st.none(), st.integers(1, 100), st.integers(1, 12_000))),
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
