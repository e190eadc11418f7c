"""From the scanner's memory to what a plan decides by: no rescan, a few stats and small files a dataset.

The plan, the trace and the generator all come through here, so that they decide by the same facts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from remote.answered_by import answered_by
from remote.facts import PRETOKENIZED_KIND, DatasetState, RecordCounts, Surroundings, Tokenization
from remote.layout import PROMPTS, RESPONSES, Layout
from remote.options import Options
from remote.runs import Run, read_runs
from remote.scan import DatasetScan, RootScan
from remote.text import clean
from remote.tokenization import TokenizationFacts, stamps_of, tokenization_of
from remote.tokenized_meta import read_meta, read_refused
from remote.tombstones import Tombstone, read_tombstones

NAMED = 6
"""So many untokenized samples are named; the rest are counted."""


_HARMLESS = frozenset({"no-eos", "extra-keys", "finish-object", "no-prompt-tokens", "no-completion-tokens"})
"""Kinds of problems that are named last: nothing is lost by them."""


@dataclass(frozen=True)
class _Root:
    """What all datasets share."""

    layout: Layout
    options: Options
    around: Surroundings
    runs: Sequence[Run]
    all_records: int
    all_tokens: int
    bytes_per_token: float | None


def gather(layout: Layout, scan: RootScan, options: Options, around: Surroundings) -> list[DatasetState]:
    """The state of every dataset of a scan, in its order.

    A small file that cannot be read counts as absent: a plan must not fail on one. Raises nothing
    but what a bug raises.
    """
    tombstones = _tombstones(layout)
    all_tokens = sum(dataset.tokens or 0 for dataset in scan.datasets)
    all_bytes = sum(dataset.file(RESPONSES).size_bytes or 0 for dataset in scan.datasets)
    root = _Root(
        layout=layout,
        options=options,
        around=around,
        runs=_runs(layout),
        all_records=sum(dataset.classes.valid + dataset.classes.repairable for dataset in scan.datasets),
        all_tokens=all_tokens,
        bytes_per_token=all_bytes / all_tokens if all_tokens else None,
    )
    return [_state(root, dataset, tombstones.get(dataset.folder, {})) for dataset in scan.datasets]


def _state(root: _Root, dataset: DatasetScan, tombstones: Mapping[str, Tombstone]) -> DatasetState:
    around, counts, raw = root.around, dataset.classes, dataset.file(RESPONSES)
    changes, unrecorded = answered_by(
        root.runs, dataset.folder, dataset.answered, raw.size_bytes or 0, root.options, around
    )
    growing = dataset.growing_since is not None
    return DatasetState(
        folder=dataset.folder,
        at=around.at,
        kind=dataset.kind,
        exists=dataset.exists,
        readable=dataset.readable,
        detail=_why_unreadable(dataset),
        prompts=dataset.prompts,
        bad_prompts=_bad_prompts(dataset),
        trailing_assistant=dataset.trailing_assistant,
        responses=dataset.responses,
        tokenized=dataset.tokenized,
        records=RecordCounts(
            valid=counts.valid,
            repairable=counts.repairable,
            unusable=counts.unusable,
            duplicates=counts.duplicates,
            orphans=counts.orphans,
            # While somebody writes, half a line is unfinished, not torn.
            torn=0 if growing else counts.torn,
        ),
        first_problem=_first_problem(dataset),
        tokens=dataset.tokens or 0,
        answered=dataset.answered,
        set_aside=_set_aside(dataset, tombstones),
        all_records=root.all_records,
        all_tokens=root.all_tokens,
        rate=around.rate,
        gpus=around.gpus,
        bytes_per_token=root.bytes_per_token,
        responses_changed_at=raw.mtime_s,
        growing=growing,
        processes=around.processes,
        settings_changes=changes,
        unrecorded=unrecorded,
        tokenization=_tokenization(root, dataset),
    )


def _tokenization(root: _Root, dataset: DatasetScan) -> Tokenization:
    """What retokenizing would do now, by the same function that it asks itself."""
    if not dataset.exists or not dataset.readable:
        return Tokenization("none", "faulty" if dataset.exists else "missing")
    meta = read_meta(root.layout, dataset.folder)
    try:
        stamps = stamps_of(root.layout, dataset.folder)
    except OSError as error:
        return Tokenization("none", "faulty", clean(error.strerror or error))
    facts = TokenizationFacts(
        folder=dataset.folder,
        usable=dataset.answered,
        rows=dataset.tokenized,
        stamps=stamps,
        pretokenized=dataset.kind == PRETOKENIZED_KIND,
        untokenized=_untokenized(dataset) if meta is None else (),
        tokens=dataset.tokens or 0,
        refused=read_refused(root.layout, dataset.folder),
    )
    made = tokenization_of(facts, meta, root.around.fingerprint, root.options)
    return Tokenization(made.decision, made.reason, made.evidence, made.trainable, made.seconds)


def _tombstones(layout: Layout) -> Mapping[str, Mapping[str, Tombstone]]:
    try:
        return read_tombstones(layout)
    except OSError:
        return {}


def _untokenized(dataset: DatasetScan) -> tuple[str, ...]:
    """A few answers that have no row, by name. The ids are unpacked only where some are missing."""
    if dataset.tokenized is None or dataset.tokenized >= dataset.answered:
        return ()
    return tuple(dataset.untokenized_ids()[:NAMED])


def _runs(layout: Layout) -> list[Run]:
    try:
        return read_runs(layout)
    except OSError:
        return []


def _set_aside(dataset: DatasetScan, tombstones: Mapping[str, Tombstone]) -> int:
    """Tombstones of prompts that are there and have no answer."""
    if not tombstones or not dataset.prompts:
        return 0
    unanswered = set(dataset.prompt_keys()) - dataset.answered_ids()
    return len(unanswered & tombstones.keys())


def _bad_prompts(dataset: DatasetScan) -> int:
    """Lines of prompts.jsonl that are left out: bad ones and repeated ones."""
    return sum(problem.count for problem in dataset.problems if problem.file == PROMPTS and problem.line is not None)


def _first_problem(dataset: DatasetScan) -> str:
    """`3 bad-json, the first in line 17`."""
    found = [problem for problem in dataset.problems if problem.file == RESPONSES and problem.line is not None]
    worst = next((problem for problem in found if problem.code not in _HARMLESS), next(iter(found), None))
    return f"{worst.count:,} {worst.code}, the first in line {worst.line:,}" if worst is not None else ""


def _why_unreadable(dataset: DatasetScan) -> str:
    """`raw_responses.jsonl: Permission denied`."""
    return next((f"{facts.name}: {facts.reason}" for facts in dataset.files if not facts.readable and facts.reason), "")
