"""Restart with a budget: freeze, preflight and trace, stop, ship, launch, verify, audit.

`propose` asks the container and changes nothing; what it returns is frozen (`restart_plan`) and printed, and its
`execute` does exactly that (`restart_steps`). Whatever fails, the outcome says what was done, what was not, and
what to do; the worst of them, killed but not started, is shouted (`restart_outcome`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from console.model import Writer
from console.ports import Ask, Outcome, Progress, Proposal, Remark
from console.restart_plan import RestartPlan, check_against, look
from console.restart_steps import carry_out
from console.short_command import short_command
from console.stages import StageBoard
from console.text import age, count
from console.trace_gist import gist_lines
from console.view import ControllerLike, Level, View
from remote.errors import OperatorError
from remote.options import Options
from remote.text import clean
from widgets.stage_list import Stage


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
        return await carry_out(controller, frozen, StageBoard(_stages(frozen), progress), api_key)

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
