"""Alerts about the datasets, their records and the disk they lie on."""

from __future__ import annotations

from collections.abc import Iterator

from console import text
from console.finding import Case, Finding, work_left
from console.model import Snapshot
from console.view import Level

BYTES_PER_TOKEN = 16.0
"""Of both files together: seven digits and a comma in the responses, the same and two for the mask in the rows."""


def unusable(case: Case) -> Iterator[Finding]:
    """Unusable records that appeared while we watched, too many of them, or files that cannot be read."""
    for row in case.snapshot.datasets:
        now, first = row.schema.unusable or 0, case.trends.unusable.get(row.folder, 0)
        if row.state == "faulty":
            yield Finding(
                f"unreadable:{row.folder}",
                "unreadable",
                Level.CRITICAL,
                f"{row.id} cannot be read",
                "see its files",
                "enter",
                row.folder,
            )
        elif now and row.inference.decision == "blocked" and row.inference.reason == "faulty":
            # The plan is up to two seconds older than the counts: of a file that could not be read a moment ago, it
            # still says the same word, and no record of it is unusable.
            yield Finding(
                f"faulty:{row.folder}",
                "faulty",
                Level.CRITICAL,
                f"{row.id}: {text.count(now)} of {text.count(row.responses)} records are unusable; a restart leaves it out",
                "see the first ones; accept them by name only if they may be generated again",
                "s",
                row.folder,
            )
        elif now > first:
            yield Finding(
                f"unusable:{row.folder}",
                "unusable",
                Level.WARNING,
                f"{row.id}: {text.count(now - first)} new unusable records",
                "see what is wrong with them",
                "s",
                row.folder,
            )


def mismatches(case: Case) -> Iterator[Finding]:
    """Answers that cannot be trained on, because their prompt is rendered differently now."""
    for row in case.snapshot.datasets:
        count, of = row.prompt_mismatches, row.answered
        if _share_at_least(case, count, of, case.limits.prompt_mismatch_share):
            yield Finding(
                f"prompt-mismatch:{row.folder}",
                "prompt-mismatch",
                Level.WARNING,
                f"{row.id}: {text.count(count)} of {text.count(of)} answers were made for another rendering of their prompt",
                "tokenizer or template differ from the run's; see the dataset",
                "enter",
                row.folder,
            )


def shapes(case: Case) -> Iterator[Finding]:
    """Shares of answers that were cut, that do not end properly, or that lack their thinking."""
    limits = case.limits
    for row in case.snapshot.datasets:
        cut = row.finish_reasons.get("length")
        kinds = (
            ("length-share", cut, row.answered, limits.length_share, "were cut by their length limit", "a larger --max-new-tokens"),
            ("no-eos", row.no_eos, row.answered, limits.no_eos_share, "stopped without an end-of-sequence id", "compare model and engine"),
            ("no-think", row.no_think, row.sampled, limits.no_think_share, "lately have no </think>", "look at some answers"),
        )  # fmt: skip
        for code, count, of, share, what, step in kinds:
            if _share_at_least(case, count, of, share):
                yield Finding(
                    f"{code}:{row.folder}",
                    code,
                    Level.WARNING,
                    f"{row.id}: {text.percent(count, of)} of {text.count(of)} answers {what}",
                    step,
                    "enter",
                    row.folder,
                )


def _share_at_least(case: Case, count: int | None, of: int | None, share: float) -> bool:
    return count is not None and of is not None and of >= case.limits.least_answers and count / of >= share


def unreachable(case: Case) -> Iterator[Finding]:
    """A budget that the prompts left cannot reach, by the dataset's own mean."""
    for row in case.snapshot.datasets:
        remaining, mean = row.remaining_tokens, row.mean_tokens
        if not remaining or mean is None or (row.answered or 0) < 20 or row.prompts_left is None:
            continue
        reachable = row.prompts_left * mean
        if reachable < 0.98 * remaining:
            missing = text.tokens(remaining)
            left = f"its {text.count(row.prompts_left)} prompts left give about {text.tokens(reachable)}"
            yield Finding(
                f"unreachable:{row.folder}",
                "unreachable",
                Level.NOTE,
                f"{row.id}: {left} of the {missing} tokens missing"
                if row.prompts_left
                else f"{row.id}: every prompt is answered, {missing} tokens short of its budget",
                "lower its budget or add prompts",
                "b",
                row.folder,
                lasts_s=5,
            )


def disk(case: Case) -> Iterator[Finding]:
    """Space or file entries that run out, now or before the work ends."""
    snapshot = case.snapshot
    disk = snapshot.disk
    needed = _bytes_needed(snapshot)
    if disk.free_bytes is not None and disk.free_bytes < max(case.limits.disk_free_bytes, needed):
        scarce = disk.free_bytes < case.limits.disk_free_bytes
        yield Finding(
            "disk",
            "disk",
            Level.CRITICAL if scarce else Level.WARNING,
            f"{text.size(disk.free_bytes)} are free on the disk"
            + (f", and the work left needs about {text.size(needed)}" if needed > disk.free_bytes else ""),
            "make room under the root's file system",
            lasts_s=5,
        )
    if disk.free_inodes is not None and disk.free_inodes < 1000:
        yield Finding(
            "inodes",
            "inodes",
            Level.CRITICAL,
            f"{text.count(disk.free_inodes)} files more can be made on the disk",
            "remove files that nobody needs",
        )


def _bytes_needed(snapshot: Snapshot) -> float:
    return BYTES_PER_TOKEN * sum(row.remaining_tokens or 0 for row in work_left(snapshot))
