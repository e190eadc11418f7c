"""What is wrong in one view: one small function per alert of the list, each telling a sentence and a next step.

Every rule is pure and knows nothing of time passing; `console.alerts` adds that. A finding's
`key` says what it is about (`engine-unhealthy`, `length-share:B4_mixturethoughts`), so that an
acknowledgement made on one console is understood by another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from console import text
from console.model import Dataset, Writer
from console.thresholds import Thresholds
from console.trends import Trends, failed_share
from console.view import Level, LinkState, View


@dataclass(frozen=True)
class Finding:
    """Something wrong right now. `lasts_s` is how long it must last before it becomes an alert.

    `since` is known where the container itself says when it began (container clock);
    `at_first_look` says whether a console opened now may raise it without waiting;
    `of_link` marks what is about the link itself and not about the container.
    """

    key: str
    code: str
    level: Level
    sentence: str
    next_step: str = ""
    press: str = ""
    dataset: str | None = None
    since: float | None = None
    lasts_s: float = 0.0
    at_first_look: bool = True
    of_link: bool = False


@dataclass(frozen=True)
class Case:
    """What the rules look at."""

    view: View
    trends: Trends
    limits: Thresholds
    steady_s: float


Rule = Callable[[Case], Iterator[Finding]]


def find(view: View, trends: Trends, limits: Thresholds, steady_s: float) -> list[Finding]:
    """Everything that is wrong in this view, by all the rules."""
    case = Case(view, trends, limits, steady_s)
    rules = LINK_RULES if view.snapshot is None or not view.link.fresh else (*LINK_RULES, *RULES)
    return [finding for rule in rules for finding in rule(case)]


def _link_down(case: Case) -> Iterator[Finding]:
    link = case.view.link
    age_s = link.age_s
    if link.state in (LinkState.UNKNOWN_KEY, LinkState.CHANGED_KEY, LinkState.FAILED):
        yield Finding(
            "link-failed", "link-failed", Level.CRITICAL, f"no link: {link.error}", link.remedy, "R", of_link=True
        )
    elif link.state in (LinkState.STALE, LinkState.RECONNECTING) and age_s is not None and age_s >= case.limits.stale_s:
        because = f": {link.error}" if link.error else ""
        yield Finding(
            "stale-link",
            "stale-link",
            Level.CRITICAL if age_s >= 5 * case.limits.stale_s else Level.WARNING,
            f"nothing has been heard of the container for {text.age(age_s)}{because}",
            "what runs there runs on; try again now",
            "R",
            of_link=True,
        )


def _clock_skew(case: Case) -> Iterator[Finding]:
    skew_s = case.view.link.skew_s
    if skew_s is not None and abs(skew_s) >= case.limits.skew_s:
        yield Finding(
            "clock-skew",
            "clock-skew",
            Level.WARNING,
            f"the container's clock is {text.duration(abs(skew_s))} {'ahead of' if skew_s > 0 else 'behind'} ours",
            "ages are measured by its clock; set the clocks",
            of_link=True,
        )


def _process_died(case: Case) -> Iterator[Finding]:
    snapshot = case.view.snapshot
    assert snapshot is not None
    generator, left = snapshot.generator, _work_left(case.view)
    end = generator.exit
    died = generator.verdict == "lost" or (
        generator.verdict == "exited" and end is not None and (end.signal is not None or end.code not in (0, 3, None))
    )
    if not died or not left:
        return
    how = end.reason if end is not None and end.reason else _how(generator.verdict, end.code if end else None)
    yield Finding(
        "process-died",
        "process-died",
        Level.CRITICAL,
        f"the generator died with work left in {_names(left)}: {how}",
        "see the log, then restart",
        "r",
        since=end.at if end is not None and end.at is not None else generator.progress_at,
    )


def _how(verdict: str, code: int | None) -> str:
    if verdict == "lost":
        return "it left no word; killed, out of memory, or the container restarted"
    return f"exit code {code}"


def _stopped(case: Case) -> Iterator[Finding]:
    snapshot = case.view.snapshot
    assert snapshot is not None
    generator, left = snapshot.generator, _work_left(case.view)
    if generator.verdict == "exited" and generator.exit is not None and generator.exit.code == 3 and left:
        by = f" by {generator.exit.by}" if generator.exit.by else ""
        yield Finding(
            "stopped",
            "stopped",
            Level.NOTE,
            f"the generator was stopped{by} with work left in {_names(left)}",
            "start it again",
            "r",
            since=generator.exit.at,
        )


def _no_new_answer(case: Case) -> Iterator[Finding]:
    view, snapshot = case.view, case.view.snapshot
    assert snapshot is not None
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


def _hangs(case: Case) -> Iterator[Finding]:
    snapshot = case.view.snapshot
    assert snapshot is not None
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


def _errors(case: Case) -> Iterator[Finding]:
    share = failed_share(case.trends)
    if share is None:
        return
    failed, total = share
    if total >= case.limits.least_answers and failed / total >= case.limits.error_share:
        assert case.view.snapshot is not None
        kinds = case.view.snapshot.generator.errors
        most = max(kinds, key=lambda kind: kinds[kind], default="")
        yield Finding(
            "errors",
            "errors",
            Level.WARNING,
            f"{text.percent(failed, total)} of the last {text.count(total)} requests failed"
            + (f", most of them {most}" if most else ""),
            "look at the engine and the log",
            "e",
            lasts_s=30,
        )


def _engine(case: Case) -> Iterator[Finding]:
    snapshot = case.view.snapshot
    assert snapshot is not None
    engine = snapshot.engine
    if engine.health in ("healthy", "unknown"):
        return
    needed = snapshot.generator.running or bool(snapshot.writers)
    detail = f": {engine.detail}" if engine.detail else ""
    yield Finding(
        "engine-unhealthy",
        "engine-unhealthy",
        Level.CRITICAL if needed and engine.health != "loading" else Level.WARNING,
        f"the engine at {engine.url or 'its address'} is {engine.health}{detail}",
        "the generator waits for it; look at the engine" if needed else "start it before restarting",
        "e",
        lasts_s=case.limits.engine_unhealthy_s,
    )


def _engine_restarted(case: Case) -> Iterator[Finding]:
    at = case.trends.engine_restarted_at
    age_s = case.view.age_s(at)
    if age_s is not None and age_s < 1800:
        yield Finding(
            "engine-restarted",
            "engine-restarted",
            Level.WARNING,
            f"the engine was restarted {text.duration(age_s)} ago",
            "see whether it serves what it should",
            "e",
            since=at,
        )


def _other_model(case: Case) -> Iterator[Finding]:
    snapshot = case.view.snapshot
    assert snapshot is not None
    if snapshot.engine.expected_model is False:
        yield Finding(
            "other-model",
            "other-model",
            Level.CRITICAL,
            f"the engine serves {snapshot.engine.model_path or 'another model'}, "
            f"not {case.view.options.model_path or 'the one in the options'}",
            "pause or kill the generator before it mixes models",
            "K",
        )
    changed = case.trends.weights_changed
    if changed is not None:
        yield Finding(
            "weights-changed",
            "weights-changed",
            Level.WARNING,
            f"the engine's weights changed from {changed[0]} to {changed[1]}",
            "answers from now on are another model's",
            "e",
            since=case.trends.weights_changed_at,
        )


def _unusable(case: Case) -> Iterator[Finding]:
    for row in _rows(case):
        now, first = row.schema.unusable or 0, case.trends.unusable.get(row.folder, 0)
        if row.inference.decision == "blocked" and row.inference.reason == "faulty":
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
        if row.state == "faulty" and row.inference.reason != "faulty":
            yield Finding(
                f"unreadable:{row.folder}",
                "unreadable",
                Level.CRITICAL,
                f"{row.id} cannot be read",
                "see its files",
                "enter",
                row.folder,
            )


def _mismatches(case: Case) -> Iterator[Finding]:
    for row in _rows(case):
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


def _shapes(case: Case) -> Iterator[Finding]:
    limits = case.limits
    for row in _rows(case):
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


def _disk(case: Case) -> Iterator[Finding]:
    snapshot = case.view.snapshot
    assert snapshot is not None
    disk = snapshot.disk
    needed = _bytes_needed(case.view)
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


BYTES_PER_TOKEN = 16.0
"""Of both files together: seven digits and a comma in the responses, the same and two for the mask in the rows."""


def _bytes_needed(view: View) -> float:
    snapshot = view.snapshot
    rows = snapshot.datasets if snapshot is not None else ()
    return BYTES_PER_TOKEN * sum(
        row.remaining_tokens or 0 for row in rows if row.inference.decision in ("resume", "start")
    )


def _gpu_idle(case: Case) -> Iterator[Finding]:
    snapshot, busy_s = case.view.snapshot, case.trends.gpu_busy_s
    assert snapshot is not None
    if busy_s is None or not snapshot.generator.running or snapshot.generator.paused:
        return
    if case.steady_s - busy_s >= case.limits.gpu_idle_s:
        yield Finding(
            "gpu-idle",
            "gpu-idle",
            Level.WARNING,
            f"the GPUs have been idle for {text.duration(case.steady_s - busy_s)} while the generator runs",
            "look at the engine",
            "e",
            at_first_look=False,
        )


def _writers(case: Case) -> Iterator[Finding]:
    snapshot = case.view.snapshot
    assert snapshot is not None
    for writer in snapshot.writers:
        yield from _writer(case, writer)
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
    known = {*snapshot.generator.in_work, *(name for writer in snapshot.writers for name in writer.datasets)}
    for row in snapshot.datasets:
        if row.growing and row.folder not in known and not snapshot.generator.running:
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


def _writer(case: Case, writer: Writer) -> Iterator[Finding]:
    snapshot = case.view.snapshot
    assert snapshot is not None
    if writer.token_budget is not None:
        return
    on = [row for row in snapshot.datasets if row.folder in writer.datasets]
    past = [row for row in on if row.budget and row.tokens is not None and row.tokens >= row.budget]
    needless = (
        f"; left alone it makes {text.tokens(writer.needless_tokens)} needless tokens" if writer.needless_tokens else ""
    )
    if past:
        sentence = f"{_names(past)} is past its budget and pid {writer.pid}, without --token-budget, still writes it"
    else:
        sentence = f"pid {writer.pid} writes {_names(on) or 'under the root'} without --token-budget"
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


def _unreachable(case: Case) -> Iterator[Finding]:
    for row in _rows(case):
        remaining, mean = row.remaining_tokens, row.mean_tokens
        if not remaining or mean is None or (row.answered or 0) < 20 or row.prompts_left is None:
            continue
        reachable = row.prompts_left * mean
        if reachable < 0.98 * remaining:
            yield Finding(
                f"unreachable:{row.folder}",
                "unreachable",
                Level.NOTE,
                f"{row.id}: its {text.count(row.prompts_left)} prompts left give about {text.tokens(reachable)} "
                f"of the {text.tokens(remaining)} tokens missing",
                "lower its budget or add prompts",
                "b",
                row.folder,
                lasts_s=5,
            )


def _agent_problems(case: Case) -> Iterator[Finding]:
    snapshot = case.view.snapshot
    assert snapshot is not None
    if snapshot.problems:
        more = f" (and {len(snapshot.problems) - 1} more)" if len(snapshot.problems) > 1 else ""
        yield Finding(
            "partly-blind",
            "partly-blind",
            Level.WARNING,
            f"the container cannot be read in full: {snapshot.problems[0]}{more}",
            "what is not known is shown as –",
            lasts_s=15,
        )
    if snapshot.misread:
        yield Finding(
            "misread",
            "misread",
            Level.WARNING,
            f"the agent sent what this console does not understand: {snapshot.misread[0]}",
            "connect anew to ship this release",
            "R",
        )


def _hold(case: Case) -> Iterator[Finding]:
    snapshot = case.view.snapshot
    assert snapshot is not None
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


LINK_RULES: tuple[Rule, ...] = (_link_down, _clock_skew)
"""Rules that hold without a fresh snapshot."""

RULES: tuple[Rule, ...] = (
    _process_died,
    _stopped,
    _no_new_answer,
    _hangs,
    _errors,
    _engine,
    _engine_restarted,
    _other_model,
    _unusable,
    _mismatches,
    _shapes,
    _disk,
    _gpu_idle,
    _writers,
    _unreachable,
    _agent_problems,
    _hold,
)


def _rows(case: Case) -> tuple[Dataset, ...]:
    return case.view.snapshot.datasets if case.view.snapshot is not None else ()


def _work_left(view: View) -> list[Dataset]:
    rows = view.snapshot.datasets if view.snapshot is not None else ()
    return [row for row in rows if row.inference.decision in ("resume", "start")]


def _names(rows: list[Dataset]) -> str:
    ids = [row.id for row in rows]
    return ", ".join(ids) if len(ids) <= 3 else f"{ids[0]} to {ids[-1]} ({len(ids)} datasets)"


def _requests(number: int | None) -> str:
    return "requests are" if number is None else f"{text.plural(number, 'request')} {'is' if number == 1 else 'are'}"
