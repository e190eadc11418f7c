"""Restart with a budget: freeze, preflight and trace, stop, ship, launch, verify, audit.

`propose` asks the container and changes nothing; what it returns is frozen and printed, and its
`execute` does exactly that. Whatever fails, the outcome says what was done, what was not, and
what to do; the worst of them, killed but not started, is shouted.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console.clock import wall_s
from console.model import Generator, Writer
from console.plan_diff import plan_differences
from console.ports import Ask, Outcome, Progress, Proposal, Remark
from console.restart_outcome import failure, looked_again
from console.short_command import short_command
from console.stages import StageBoard
from console.text import age, count, plural
from console.trace_gist import gist_lines
from console.view import ControllerLike, Level, View
from console.watching import wait_for
from console.who import operator_text
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.options import Options
from remote.text import clean
from widgets.stage_list import Stage, StageState

PLAN_DEADLINE_S = 60.0
PREFLIGHT_DEADLINE_S = 180.0
LAUNCH_DEADLINE_S = 180.0
STRAY_DEADLINE_S = 90.0
ENGINE_FREE_DEADLINE_S = 20.0
VERIFY_DEADLINE_S = 30.0
STOP_MARGIN_S = 60.0
"""A stop may take its drain, and this much for the steps after it."""

STOPPABLE_VERDICTS = frozenset({"starting", "running", "running-unsupervised", "held-by-stray"})


@dataclass(frozen=True)
class RestartPlan:
    """What was true at the key press: everything `execute` goes by, and what `trace` prints."""

    target: str
    options: Options
    plan: Mapping[str, Any]
    preflight: tuple[Mapping[str, Any], ...]
    generator: Generator
    stops_generator: bool
    strays: tuple[Writer, ...]


async def look(controller: ControllerLike, options: Options, kill_pids: Collection[int] | None = None) -> RestartPlan:
    """Freeze the target and ask for plan and preflight; nothing is changed.

    `kill_pids` are the foreign processes that were named, None for all that there are.
    Raises OperatorError, `unnamed-process` when one of them was not named.
    """
    view = controller.view
    if view.snapshot is None:
        raise OperatorError("no-snapshot", "the container has not been seen yet", "wait for the link, then try again")
    snapshot = view.snapshot
    strays = _named(view, snapshot.writers, kill_pids)
    stops = snapshot.generator.verdict in STOPPABLE_VERDICTS
    asked = {
        "options": options.to_json(),
        "stopping": [writer.pid for writer in strays],
        "stops_generator": stops,
        "at": time.time(),
    }
    plan = await controller.call("plan", asked, PLAN_DEADLINE_S)
    preflight = await controller.call("preflight", {**asked, "at": wall_s()}, PREFLIGHT_DEADLINE_S)
    return RestartPlan(
        target=view.link.target,
        options=options,
        plan={**plan, "preflight": preflight},
        preflight=tuple(preflight),
        generator=snapshot.generator,
        stops_generator=stops,
        strays=strays,
    )


def _named(view: View, writers: Sequence[Writer], kill_pids: Collection[int] | None) -> tuple[Writer, ...]:
    if kill_pids is None:
        return tuple(writers)
    present = {writer.pid for writer in writers}
    unnamed = [writer for writer in writers if writer.pid not in kill_pids]
    if unnamed:
        who = "; ".join(
            f"pid {writer.pid} ({short_command(writer.argv)}, up {age(view.age_s(writer.since))})" for writer in unnamed
        )
        flags = " ".join(f"--kill-pid {writer.pid}" for writer in unnamed)
        raise OperatorError(
            "unnamed-process",
            f"a restart would have to kill what this console did not launch: {who}",
            f"name each one to be killed: {flags}",
        )
    gone = [pid for pid in kill_pids if pid not in present]
    if gone:
        raise OperatorError(
            "not-there",
            f"pid {', '.join(map(str, gone))} is no process that writes these datasets",
            "look at the state again with: eagle3-console status",
        )
    return tuple(writer for writer in writers if writer.pid in kill_pids)


def check_against(plan: Mapping[str, Any], kept: Mapping[str, Any]) -> None:
    """Refuse when the state drifted from a kept plan; counts alone may differ. Raises OperatorError `drifted`."""
    differences = plan_differences(kept, plan)
    if differences:
        raise OperatorError(
            "drifted",
            "the state is not the one of the kept plan: " + "; ".join(differences),
            "make a new one with: eagle3-console trace --out FILE",
        )


async def propose(
    controller: ControllerLike,
    options: Options,
    kill_pids: Collection[int] | None = None,
    kept_plan: Mapping[str, Any] | None = None,
    api_key: str | None = None,
) -> tuple[Proposal, RestartPlan]:
    """What a restart would do, to be shown and confirmed. Raises OperatorError; changes nothing.

    `kept_plan` is one that must still hold; `api_key` goes over the link into the generator's environment only.
    """
    if options.read_only:
        raise OperatorError("read-only", "this target is read-only", "leave out --read-only to change something")
    frozen = await look(controller, options, kill_pids)
    if kept_plan is not None:
        check_against(frozen.plan, kept_plan)
    view = controller.view
    blockers = [check for check in frozen.preflight if check.get("level") == "blocker"]
    warnings = [check for check in frozen.preflight if check.get("level") == "warning"]
    remarks = [_remark(check) for check in (*blockers, *warnings)]
    remarks += [
        Remark(Level.CRITICAL if problem.get("level") == "blocked" else Level.WARNING, _problem_text(row, problem))
        for row in frozen.plan.get("datasets", [])
        for problem in row.get("problems", [])
        if problem.get("level") in ("blocked", "warning")
    ]
    ok = sum(1 for check in frozen.preflight if check.get("level") == "ok")
    remarks.insert(0, Remark(Level.NOTE, f"preflight: {ok} ok, {len(warnings)} to look at, {len(blockers)} in the way"))
    ask = _ask(frozen, bool(blockers), any(remark.level is not Level.NOTE for remark in remarks), remarks)

    async def execute(choice: str, progress: Progress) -> Outcome:
        return await _carry_out(controller, frozen, progress, api_key)

    proposal = Proposal(
        title=f"restart on {frozen.target}",
        target=_target_lines(frozen, view),
        stages=_stages(frozen),
        remarks=tuple(remarks),
        ask=ask,
        yes=_yes(frozen),
        execute=execute,
        gist=gist_lines(frozen.plan),
    )
    return proposal, frozen


def _remark(check: Mapping[str, Any]) -> Remark:
    level = Level.CRITICAL if check.get("level") == "blocker" else Level.WARNING
    remedy = check.get("remedy")
    text = f"{check.get('check')}: {check.get('detail')}" + (f"; {remedy}" if remedy else "")
    return Remark(level, clean(text, 400))


def _problem_text(row: Mapping[str, Any], problem: Mapping[str, Any]) -> str:
    return clean(f"{row.get('id')}: {problem.get('message')} ({problem.get('code')})", 400)


def _would_change(frozen: RestartPlan) -> bool:
    rows = frozen.plan.get("datasets", [])
    return any(
        (row.get("inference") or {}).get("decision") in ("start", "resume")
        or (row.get("tokenization") or {}).get("decision") in ("rebuild", "after-inference")
        for row in rows
    )


def _same_run(frozen: RestartPlan) -> bool:
    """Whether what runs is this very release with these very options."""
    running = frozen.plan.get("running") or []
    return frozen.generator.running and any(row.get("ours") and row.get("same_options") for row in running)


def _ask(frozen: RestartPlan, blocked: bool, warned: bool, remarks: list[Remark]) -> Ask:
    if blocked:
        return Ask.BLOCKED
    if not frozen.strays and _same_run(frozen):
        remarks.append(Remark(Level.NOTE, "it already runs, with these options and this release: nothing would change"))
        return Ask.NOTHING
    if not _would_change(frozen) and not frozen.strays and not frozen.stops_generator:
        remarks.append(Remark(Level.NOTE, "no dataset has anything left to do: nothing would change"))
        return Ask.NOTHING
    return Ask.YES if warned or frozen.strays or frozen.stops_generator else Ask.COUNTDOWN


def _target_lines(frozen: RestartPlan, view: View) -> tuple[str, ...]:
    lines = [f"root {clean(frozen.options.root, 200)}"]
    if frozen.stops_generator:
        generator = frozen.generator
        lines.append(
            f"generator pid {generator.pid}, run {generator.run_id}, up {age(view.age_s(generator.since))}, "
            f"{count(generator.in_flight)} in flight"
        )
    for writer in frozen.strays:
        lines.append(f"pid {writer.pid}  {short_command(writer.argv)}")
        lines.append(f"  not started by this console; up {age(view.age_s(writer.since))}")
        if writer.parent is not None and writer.parent.respawns:
            lines.append(
                f"  its parent, pid {writer.parent.pid} ({short_command(writer.parent.argv, 80)}), may start it again:"
                f" end that first, on the container: kill {writer.parent.pid}"
            )
    return tuple(lines)


def _stages(frozen: RestartPlan) -> tuple[Stage, ...]:
    victims = (
        [f"pid {frozen.generator.pid} by drain, at most {frozen.options.drain_s:g} s"] if frozen.stops_generator else []
    )
    victims += [f"pid {writer.pid} by INT, TERM, KILL" for writer in frozen.strays]
    release = str(frozen.plan.get("release") or "")[:7]
    running = (frozen.generator.release or "")[:7]
    was = f" (what runs has {running})" if running and running != release and frozen.stops_generator else ""
    dropped = [flag for writer in frozen.strays for flag in _dropped_flags(writer)]
    launch = f"--token-budget {frozen.options.token_budget} --concurrency {frozen.options.concurrency}"
    if frozen.options.max_samples is not None:
        launch += f" --max-samples {frozen.options.max_samples}"
    return (
        Stage("stop", "stop", "; ".join(victims) or "nothing runs"),
        Stage("ship", "ship", f"release {release or 'of this console'}{was}"),
        Stage("launch", "launch", launch, (f"without {', '.join(dropped)}",) if dropped else ()),
        Stage("verify", "verify", "lock, identity, first progress"),
    )


def _dropped_flags(writer: Writer) -> list[str]:
    return [f"--max-samples {writer.max_samples}"] if writer.max_samples is not None else []


def _yes(frozen: RestartPlan) -> str:
    pids = [str(frozen.generator.pid)] if frozen.stops_generator else []
    if frozen.strays:
        pids += [str(writer.pid) for writer in frozen.strays]
        return f"kill pid {', '.join(pids)} and restart"
    return f"stop pid {pids[0]} and restart" if pids else "start"


async def _carry_out(
    controller: ControllerLike, frozen: RestartPlan, progress: Progress, api_key: str | None
) -> Outcome:
    board = StageBoard(_stages(frozen), progress)
    done: list[str] = []
    launched: Mapping[str, Any] | None = None
    stage = "stop"
    try:
        await _stop(controller, frozen, board, done)
        stage = "ship"
        board.set("ship", StageState.DONE, f"{str(frozen.plan.get('release') or '')[:7]} is on the container")
        stage = "launch"
        board.set("launch", StageState.WORKING)
        launched = await _launch(controller, frozen, api_key)
        done.append(f"launched run {launched.get('run_id')}, pid {launched.get('pid')}")
        board.set("launch", StageState.DONE, f"pid {launched.get('pid')}, run {launched.get('run_id')}: it says ready")
        stage = "verify"
        remarks = await _verify(controller, board, launched)
    except OperatorError as error:
        board.give_up(stage, str(error))
        outcome = failure(stage, error, done, launched)
        outcome = await looked_again(controller, outcome, stage, error, frozen.generator)
        await _audit(controller, frozen, outcome)
        return outcome
    outcome = Outcome(
        True,
        f"running: pid {launched.get('pid')}, run {launched.get('run_id')}, budget {frozen.options.token_budget}",
        tuple(remarks),
    )
    await _audit(controller, frozen, outcome)
    return outcome


async def _stop(controller: ControllerLike, frozen: RestartPlan, board: StageBoard, done: list[str]) -> None:
    if not frozen.stops_generator and not frozen.strays:
        board.set("stop", StageState.SKIPPED)
        return
    board.set("stop", StageState.WORKING)
    by = operator_text()
    if frozen.stops_generator:
        stopped = await controller.call(
            "stop",
            {
                "mode": "drain",
                "drain_s": frozen.options.drain_s,
                "identity": frozen.generator.identity,
                "run_id": frozen.generator.run_id,
                "by": by,
            },
            frozen.options.drain_s + STOP_MARGIN_S,
        )
        _refuse_left(stopped, f"pid {frozen.generator.pid}")
        done.append(f"stopped pid {frozen.generator.pid}")
    for writer in frozen.strays:
        killed = await controller.call("kill_stray", {"identity": writer.identity, "by": by}, STRAY_DEADLINE_S)
        done += _killed(killed, writer)
    if frozen.strays:
        await _await_free_engine(controller, board, done)
    board.set("stop", StageState.DONE, "; ".join(done))


async def _await_free_engine(controller: ControllerLike, board: StageBoard, done: list[str]) -> None:
    """The requests of what was killed decode on after it; said, rather than let two loads share the engine unseen."""
    if controller.view.snapshot is None or _engine_free(controller.view):
        return
    board.set("stop", StageState.WORKING, f"{'; '.join(done)}; waiting for its requests to leave the engine")
    if await wait_for(controller, _engine_free, ENGINE_FREE_DEADLINE_S) is not None:
        return
    left = controller.view.snapshot.engine.running if controller.view.snapshot else None
    if left is None:
        done.append("its requests may still run on the engine")
    else:
        done.append(f"{plural(left, 'request')} still run{'s' if left == 1 else ''} on the engine")


def _engine_free(view: View) -> bool:
    return view.snapshot is not None and view.snapshot.engine.running == 0


def _refuse_left(stopped: Mapping[str, Any], what: str) -> None:
    left = stopped.get("left") or []
    if left:
        named = ", ".join(clean(item, 120) for item in left)
        raise OperatorError("not-gone", f"{what} is not gone: {named} is left", "kill it with --force, then restart")


def _killed(killed: Mapping[str, Any], writer: Writer) -> list[str]:
    _refuse_left(killed, f"pid {writer.pid}")
    respawned = killed.get("respawned")
    if not respawned:
        return [f"killed pid {writer.pid}"]
    parent = writer.parent.pid if writer.parent is not None else None
    raise OperatorError(
        "respawned",
        f"pid {writer.pid} was killed and something started it again as pid {clean(respawned, 80)}",
        f"end its parent first, on the container: kill {parent}" if parent else "end what starts it again first",
    )


async def _launch(controller: ControllerLike, frozen: RestartPlan, api_key: str | None) -> Mapping[str, Any]:
    params: dict[str, Any] = {"options": frozen.options.to_json(), "by": operator_text(), "plan": dict(frozen.plan)}
    if api_key:
        params["api_key"] = api_key
    launched: Mapping[str, Any] = await controller.call("launch", params, LAUNCH_DEADLINE_S)
    return launched


async def _verify(controller: ControllerLike, board: StageBoard, launched: Mapping[str, Any]) -> list[Remark]:
    board.set("verify", StageState.WORKING)
    run_id = launched.get("run_id")

    def ours(view: View) -> bool:
        generator = view.snapshot.generator if view.snapshot else None
        if generator is None or generator.run_id != run_id:
            return False
        finished = generator.verdict == "exited"
        return finished or (generator.running and generator.progress_at is not None)

    view = await wait_for(controller, ours, VERIFY_DEADLINE_S)
    if view is None or view.snapshot is None:
        raise OperatorError(
            "not-verified",
            f"run {run_id} said that it was ready, and {VERIFY_DEADLINE_S:g} s later it has made no progress",
            "look at its log with l, and at the engine with e",
        )
    snapshot = view.snapshot
    if snapshot.generator.verdict == "exited":
        code = snapshot.generator.exit.code if snapshot.generator.exit else None
        if code != ExitCode.DONE:
            raise OperatorError(
                "ended", f"run {run_id} ended at once with exit code {code}", "its log says why: press l"
            )
        board.set("verify", StageState.DONE, "it has already finished")
        return [Remark(Level.NOTE, "the run has already finished: there was little to do")]
    others = [writer.pid for writer in snapshot.writers]
    if others:
        raise OperatorError(
            "other-writer",
            f"run {run_id} runs, and pid {', '.join(map(str, others))} writes the same datasets",
            "kill it with K, or stop what starts it again",
        )
    said = snapshot.generator.engine_state
    engine = snapshot.engine.health if said in (None, "unknown") else said
    board.set("verify", StageState.DONE, f"pid {snapshot.generator.pid} holds the lock, engine {clean(engine, 40)}")
    if engine not in ("ok", "healthy", "up"):
        return [Remark(Level.WARNING, f"the engine is {clean(engine, 80)}: the run waits for it")]
    return []


async def _audit(controller: ControllerLike, frozen: RestartPlan, outcome: Outcome) -> None:
    entry = {
        "action": "restart",
        "by": operator_text(),
        "target": frozen.target,
        "killed": [dict(writer.identity or {}, argv=list(writer.argv)) for writer in frozen.strays],
        "plan": dict(frozen.plan),
        "outcome": "done" if outcome.ok else "failed",
        "detail": " | ".join([outcome.headline, *(remark.text for remark in outcome.remarks)]),
    }
    try:
        await controller.call("audit", {"add": entry})
    except OperatorError:
        # The agent has already recorded the launch and each kill; this line only adds the summary,
        # and a link that is gone must not hide the outcome from the person who is waiting for it.
        return
