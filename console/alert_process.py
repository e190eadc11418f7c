"""Alerts about processes: our generator, and those that were not launched from here."""

from __future__ import annotations

from collections.abc import Iterator

from console import text
from console.finding import Case, Finding, names, tokenizing_left, work_left
from console.model import Snapshot, Writer
from console.view import Level


def process_died(case: Case) -> Iterator[Finding]:
    """It ended by a signal, an error or without a word, and there is work left."""
    snapshot = case.snapshot
    generator, left, untokenized = snapshot.generator, work_left(snapshot), tokenizing_left(snapshot)
    end = generator.exit
    died = generator.verdict == "lost" or (
        generator.verdict == "exited" and (end is None or end.reason not in ("finished", "stopped"))
    )
    if not died or not (left or untokenized):
        return
    what = [f"work left in {names(left)}"] if left else []
    what += [f"{names(untokenized)} not tokenized"] if untokenized else []
    how = (end.detail if end is not None else "") or generator.detail or "it left no word"
    yield Finding(
        "process-died",
        "process-died",
        Level.CRITICAL,
        f"the generator died with {' and '.join(what)}: {how}",
        "see the log, then restart",
        "r",
        since=end.at if end is not None and end.at is not None else generator.progress_at,
    )


def stopped(case: Case) -> Iterator[Finding]:
    """Somebody stopped it with work left: nothing is wrong, and nobody may think that it runs."""
    snapshot = case.snapshot
    generator, left = snapshot.generator, work_left(snapshot)
    if generator.verdict == "exited" and generator.exit is not None and generator.exit.reason == "stopped" and left:
        by = f" by {generator.exit.by}" if generator.exit.by else ""
        yield Finding(
            "stopped",
            "stopped",
            Level.NOTE,
            f"the generator was stopped{by} with work left in {names(left)}",
            "start it again",
            "r",
            since=generator.exit.at,
        )


def no_new_answer(case: Case) -> Iterator[Finding]:
    """It runs, and nothing comes of it."""
    view, snapshot = case.view, case.snapshot
    generator = snapshot.generator
    if not generator.running or generator.paused or generator.draining or not generator.in_work:
        return
    times = [row.last_answer_at for row in snapshot.datasets if row.in_work and row.last_answer_at is not None]
    latest = max([*times, *([generator.since] if generator.since is not None else [])], default=None)
    age_s = view.age_s(latest)
    if age_s is not None and age_s >= case.limits.no_answer_s:
        yield Finding(
            "no-new-answer",
            "no-new-answer",
            Level.CRITICAL,
            f"no new answer for {text.duration(age_s)} while {_requests(generator.in_flight)} in flight",
            "look at the engine",
            "e",
            since=latest,
        )


def _requests(number: int | None) -> str:
    return "requests are" if number is None else f"{text.plural(number, 'request')} {'is' if number == 1 else 'are'}"


def hangs(case: Case) -> Iterator[Finding]:
    """It is alive and has stopped saying so."""
    snapshot = case.snapshot
    generator = snapshot.generator
    age_s = case.view.age_s(generator.progress_at)
    if generator.running and age_s is not None and age_s >= case.limits.progress_silent_s:
        yield Finding(
            "generator-silent",
            "generator-silent",
            Level.CRITICAL,
            f"the generator (pid {generator.pid}) has reported nothing for {text.duration(age_s)}",
            "see its log; kill it by force and restart if it hangs",
            "l",
            since=generator.progress_at,
            lasts_s=10,
        )


def writers(case: Case) -> Iterator[Finding]:
    """Processes that were not launched from here: without a budget, beside ours, or not to be found."""
    snapshot = case.snapshot
    for writer in snapshot.writers:
        yield from _no_budget(snapshot, writer)
    if snapshot.generator.running and snapshot.writers:
        pids = ", ".join(f"pid {writer.pid}" for writer in snapshot.writers)
        yield Finding(
            "second-writer",
            "second-writer",
            Level.CRITICAL,
            f"{pids} writes the datasets beside the generator",
            "kill what was not started from here",
            "K",
        )
    if snapshot.generator.running or any(not writer.datasets for writer in snapshot.writers):
        return  # one that opens, appends and closes holds no file: what grows may be its doing
    known = {name for writer in snapshot.writers for name in writer.datasets}
    for row in snapshot.datasets:
        if row.growing and row.folder not in known:
            yield Finding(
                f"unknown-writer:{row.folder}",
                "unknown-writer",
                Level.CRITICAL,
                f"{row.id} grows, and no process is known that writes it",
                "find it before anything is started: look on other machines that mount the same disk",
                "enter",
                row.folder,
                lasts_s=10,
            )


def _no_budget(snapshot: Snapshot, writer: Writer) -> Iterator[Finding]:
    if writer.token_budget not in (None, "0"):
        return
    on = [row for row in snapshot.datasets if (row.folder in writer.datasets if writer.datasets else row.growing)]
    past = [row for row in on if row.budget and row.tokens is not None and row.tokens >= row.budget]
    needless = (
        f"; left alone it makes {text.tokens(writer.needless_tokens)} needless tokens" if writer.needless_tokens else ""
    )
    if past:
        sentence = f"{names(past)} is past its budget and pid {writer.pid}, without --token-budget, still writes it"
    else:
        sentence = f"pid {writer.pid} writes {names(on) or 'under the root'} without --token-budget"
    yield Finding(
        f"no-budget:{writer.pid}",
        "no-budget",
        Level.CRITICAL if past or writer.needless_tokens else Level.WARNING,
        sentence + needless,
        "see what a restart would do, then restart",
        "d",
        past[0].folder if past else None,
        since=writer.since,
    )


def hold(case: Case) -> Iterator[Finding]:
    """What keeps things from being started or admitted, by somebody's order."""
    snapshot = case.snapshot
    hold = snapshot.hold
    if hold is not None:
        yield Finding(
            "hold",
            "hold",
            Level.NOTE,
            f"on hold by {hold.by or 'somebody'}: {hold.reason or 'no reason given'}",
            "nothing is started until it is lifted",
            "a",
            since=hold.at,
        )
    if snapshot.generator.running and snapshot.generator.paused:
        yield Finding(
            "paused", "paused", Level.NOTE, "the generator is paused: it admits no new prompts", "resume it", "p"
        )
