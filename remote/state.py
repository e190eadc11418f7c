"""The state of a dataset in one word: the first that holds of a fixed order (DESIGN §4, `scan --json`)."""

from __future__ import annotations

from remote.facts import PRETOKENIZED_KIND
from remote.options import Options

STATES = (
    "missing", "pretokenized", "no-prompts", "faulty", "tokenizing", "running", "draining",
    "budget-met", "samples-met", "exhausted", "partial", "waiting",
)  # fmt: skip
"""Every word there is, in the order in which they are asked."""


def dataset_state(
    options: Options,
    folder: str,
    *,
    kind: str,
    exists: bool,
    readable: bool,
    prompts: int | None,
    tokens: int,
    answered: int,
    set_aside: int = 0,
    tokenizing: bool = False,
    running: bool = False,
    draining: bool = False,
) -> str:
    """The word for one dataset.

    `prompts` counts usable prompts, None when there is no file; `answered` those with a usable
    answer; `set_aside` unanswered ones with a tombstone. `running`: in work, or somebody appends;
    `draining`: in work, but nothing new is admitted for it.
    """
    if not exists:
        return "missing"
    if kind == PRETOKENIZED_KIND:
        return "pretokenized"
    if not prompts and readable:
        return "no-prompts"
    if not readable:
        return "faulty"
    if tokenizing:
        return "tokenizing"
    if running and not draining:
        return "running"
    if draining:
        return "draining"
    return _by_counts(options, folder, prompts or 0, tokens, answered, set_aside)


def _by_counts(options: Options, folder: str, prompts: int, tokens: int, answered: int, set_aside: int) -> str:
    wanted = options.token_budget.of(folder)
    if wanted and tokens >= wanted:
        return "budget-met"
    target = prompts if options.max_samples is None else min(options.max_samples, prompts)
    # Under an unmet budget, all prompts answered is `exhausted`; the cap alone makes `samples-met`.
    capped = options.max_samples is not None and answered >= options.max_samples
    if capped or (not wanted and answered >= target):
        return "samples-met"
    if answered + set_aside >= prompts:
        return "exhausted"
    return "partial" if answered else "waiting"
