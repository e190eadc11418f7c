"""Alerts about the engine and its GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from console import text
from console.finding import Case, Finding
from console.trends import failed_share
from console.view import Level

NEWS_S = 1800.0
"""A restart longer ago is no news any more."""

CLOCKS_S = 5.0
"""Two start times of processes are told from another only beyond this."""


def errors(case: Case) -> Iterator[Finding]:
    """A large share of the last ten minutes' requests failed."""
    share = failed_share(case.trends)
    if share is None:
        return
    failed, total = share
    if total >= case.limits.least_answers and failed / total >= case.limits.error_share:
        kinds = case.snapshot.generator.errors
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


def engine(case: Case) -> Iterator[Finding]:
    """It is down, loading or unhealthy, for long enough to be more than a busy moment."""
    snapshot = case.snapshot
    engine = snapshot.engine
    health, detail = engine.health, f": {engine.detail}" if engine.detail else ""
    if health in ("healthy", "unknown"):
        said = snapshot.generator.engine_state if snapshot.generator.running else None
        if said not in ("down", "loading", "unhealthy", "failing"):
            return
        # A router says that it is healthy with every worker dead: the run knows better, it asks them for answers.
        health, detail = said, ", as the run finds it, whatever its /health says"
    needed = snapshot.generator.running or bool(snapshot.writers)
    yield Finding(
        "engine-unhealthy",
        "engine-unhealthy",
        Level.CRITICAL if needed and health != "loading" else Level.WARNING,
        f"the engine at {engine.url or 'its address'} is {health}{detail}",
        "the generator waits for it; look at the engine" if needed else "start it before restarting",
        "e",
        lasts_s=case.limits.engine_unhealthy_s,
    )


def engine_restarted(case: Case) -> Iterator[Finding]:
    """It was started anew under our running generator, and not long ago."""
    generator, engine = case.snapshot.generator, case.snapshot.engine
    age_s = case.view.age_s(engine.since)
    if not generator.running or generator.since is None or engine.since is None or age_s is None:
        return
    if engine.since > generator.since + CLOCKS_S and age_s < NEWS_S:
        yield Finding(
            "engine-restarted",
            "engine-restarted",
            Level.WARNING,
            "the engine was restarted while the generator ran",
            "see whether it serves what it should",
            "e",
            since=engine.since,
        )


def other_model(case: Case) -> Iterator[Finding]:
    """It serves another model than the options name, or other weights than it did."""
    snapshot = case.snapshot
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


def gpu_idle(case: Case) -> Iterator[Finding]:
    """The GPUs have had nothing to do for minutes although the generator runs."""
    snapshot, busy_s = case.snapshot, case.trends.gpu_busy_s
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
