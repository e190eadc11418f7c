"""One run: every dataset that the plan says, answered to its budget and tokenized, until done, stopped or refused.

The plan decides what is done, admission who is next, `Asking` deals with one prompt; here they are put together, and here
alone a run ends.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from remote import runs
from remote.acceptance import Acceptance
from remote.admission import Admission
from remote.answers import AnswerWriter
from remote.asking import Asking
from remote.attempts import Attempts
from remote.blame import Blame
from remote.control import ControlWatch, write_control
from remote.engine import EngineClient
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.gate import Gate
from remote.inflight import InflightLog, abort_leftovers
from remote.layout import Layout
from remote.limits import Limits
from remote.lock import RunLock
from remote.preparing import Prepared, make_source, make_track, prepare
from remote.prompts import Prompt
from remote.recent import Recent
from remote.rotation import follow
from remote.run_settings import Ready, RunSettings
from remote.runlog import RunLog
from remote.served import ServedEngine
from remote.stopping import StopRequest
from remote.suspects import CRASHES, Suspects
from remote.telling import Telling, end_line
from remote.text import clean
from remote.tokenizing import Tokenizing
from remote.tombstones import Tombstones
from remote.watchdog import Watchdog
from remote.work import Job, Work


def run(settings: RunSettings) -> ExitCode:
    """Carry one run out. Raises OperatorError for what stops it before it began or ends it; the log's last lines say
    what became of each dataset. The supervisor is told ready, or why not."""
    ready = Ready(settings.ready_fd)
    try:
        layout = Layout(Path(settings.options.root))
        with _lock(layout, settings) as lock:
            prepared = prepare(layout, settings)
            return asyncio.run(_run(layout, settings, prepared, lock.fd, ready))
    except OSError as error:
        told = disk_error(error)
        ready.no(told)
        raise told from None
    except OperatorError as error:
        ready.no(error)
        raise


async def _run(layout: Layout, settings: RunSettings, prepared: Prepared, lock_fd: int, ready: Ready) -> ExitCode:
    return await Run(layout, settings, prepared, lock_fd, ready).main()


def _lock(layout: Layout, settings: RunSettings) -> RunLock:
    if settings.lock_fd is not None:
        return RunLock.inherit(settings.lock_fd)
    if not layout.root.is_dir():
        raise OperatorError(
            "no-root", f"there is no folder {clean(layout.root)}", "give the folder of the datasets with --root"
        )
    return RunLock.take(layout, "generate", accept_unlocked="cannot-lock" in settings.options.accept)


def disk_error(error: OSError) -> OperatorError:
    """What a failed write of a state file comes to."""
    where = f" ({clean(error.filename)})" if error.filename else ""
    return OperatorError(
        "disk",
        f"the disk refuses a write{where}: {error.strerror or error}",
        "free space or repair it, then restart: nothing that was acknowledged is lost",
        ExitCode.DISK,
    )


class Run:
    """One run from its first prompt to its last line. Make it inside the event loop."""

    def __init__(self, layout: Layout, settings: RunSettings, prepared: Prepared, lock_fd: int, ready: Ready) -> None:
        options, run_id, pace = settings.options, settings.run_id, settings.pace
        now = asyncio.get_running_loop().time()
        self._layout = layout
        self._settings = settings
        self._options = options
        self._pace = pace
        self._prepared = prepared
        self._ready = ready
        self._wake = asyncio.Event()
        self._jobs: dict[str, Job] = {}
        self._error: OperatorError | None = None
        self._budget = options.token_budget
        self._log = RunLog(settings.api_key)
        self._suspects = Suspects()
        self._blame = Blame()
        self._tombstones = Tombstones(layout, run_id)
        self._stop = StopRequest(layout, run_id, options.drain_s, self._wake.set)
        self._limits = Limits(options.max_new_tokens, prepared.model.context_length)
        self._works = {
            plan.folder: Work(
                plan,
                make_source(layout, prepared, plan.folder, self._tombstones),
                Recent(now),
                plan.answered,
                closed=not plan.works,
            )
            for plan in prepared.working
        }
        self._admission = Admission(
            options.concurrency, (make_track(prepared, plan) for plan in prepared.working), options.max_new_tokens
        )
        for scan in prepared.scans.values():
            self._admission.seed_everyone((length, 1) for length in scan.answer_lengths())
        self._client = EngineClient(
            options.engine_url, settings.api_key, options.concurrency, Acceptance(prepared.model.vocab_size)
        )
        self._engine = ServedEngine(
            layout, run_id, options, prepared.model, settings.api_key, self._limits, self._client, self._log.say
        )
        self._gate = Gate(
            lambda: self._engine.health(pace.gate.look_limit_s),
            self._engine.verify,
            self._log.say,
            self._crashed,
            pace.gate,
        )
        layout.make_state()
        left = abort_leftovers(layout, settings.api_key)
        if left.found:
            rest = f" ({left.detail})" if left.detail else ""
            self._log.say(f"an earlier run left {left.found} requests on the engine; {left.aborted} aborted{rest}")
        self._inflight = InflightLog(layout, run_id, options.engine_url)
        self._attempts = Attempts(
            self._client,
            self._gate,
            self._inflight,
            self._blame,
            self._suspects.crashes,
            prepared.sent,
            run_id,
            pace.backoff,
        )
        self._watchdog = Watchdog(
            self._attempts, lambda: self._admission.speed_tokens_s, self._engine.load, self._log.say, pace.watch
        )
        self._writer = AnswerWriter(layout, on_repair=lambda repair: self._log.say(str(repair)))
        self._asking = Asking(
            run_id,
            prepared,
            self._works,
            self._admission,
            self._attempts,
            self._limits,
            self._writer,
            self._tombstones,
            self._suspects,
            self._blame,
            self._engine,
            self._watchdog,
            self._log.say,
        )
        self._tokenizing = Tokenizing(options, lock_fd, self._log.say)
        self._telling = Telling(
            layout, run_id, self._works, self._admission, self._attempts, self._gate, self._tokenizing, self._log
        )
        self._control = ControlWatch(layout, run_id)

    # ---- the course of a run

    async def main(self) -> ExitCode:
        """From ready to the exit code. Raises OperatorError for what ended it early, and OSError."""
        loop = asyncio.get_running_loop()
        self._stop.listen()
        self._begin()
        parts = {"gate": self._gate.keep(), "ticks": self._tick_for_ever(), "model": self._watch_model()}
        background = [loop.create_task(self._guarded(part), name=name) for name, part in parts.items()]
        try:
            await self._guarded(self._generate())
            await self._finish_jobs()
            if self._error is None:
                self._asking.set_aside(self._blame.release())
                await self._finish_tokenizing()
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            await self._tokenizing.stop()
            await self._guarded(self._writer.close())
            await self._client.close()
            self._inflight.close()
            self._stop.deaf()
        return self._end()

    def _begin(self) -> None:
        """Write down what the run begins with, then say ready. Raises OSError."""
        run_id, tokenizer = self._settings.run_id, self._prepared.tokenizer
        start = runs.Run(
            run_id=run_id,
            at=time.time(),
            options=self._options.to_json(),
            sampling=self._prepared.sampling.values,
            sampling_source=self._prepared.sampling.source,
            sent=self._prepared.sent,
            model_path=self._options.model_path,
            fingerprint=tokenizer.fingerprint.to_json() if tokenizer is not None else {},
        )
        runs.record_start(self._layout, start, runs.sizes(self._layout, list(self._works)))
        write_control(self._layout, paused=False, run=run_id)
        self._log.say(f"run {run_id} begins; times are {time.strftime('%Z %z')}")
        for plan in self._prepared.plan.datasets:
            expected = f", about {plan.expected.responses:,} answers" if plan.expected is not None else ""
            self._log.say(f"{plan.decision}: {plan.reason}{expected}", plan.folder)
        self._tell()
        self._ready.yes()
        for plan in self._prepared.plan.datasets:
            if not plan.works and plan.tokenization == "rebuild":
                self._tokenizing.add(plan.folder)

    async def _generate(self) -> None:
        """Keep the places full until every dataset is finished, or the run is told to stop or has to."""
        while self._error is None and not self._stop.asked:
            self._give_back()
            self._fill()
            for work in self._works.values():
                self._close_if_finished(work)
            if all(work.closed for work in self._works.values()):
                return
            await self._woken(self._pace.tick_s)

    async def _woken(self, limit_s: float) -> None:
        """Wait until something has happened, at most that long."""
        self._wake.clear()
        try:
            await asyncio.wait_for(self._wake.wait(), limit_s)
        except asyncio.TimeoutError:
            return

    def _give_back(self) -> None:
        """Prompts that were given up while the engine failed everybody are asked again. At the very end nobody is left
        who could tell whose fault it was: then they are set aside. Raises OSError."""
        for failure in self._blame.give_back():
            self._works[failure.folder].source.put_back(failure.prompt)
            self._admission.tracks[failure.folder].left += 1
        if not self._jobs and self._gate.is_open and self._admission.finished:
            self._asking.set_aside(self._blame.release())

    def _fill(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._gate.is_open:
            folder = self._admission.next(now)
            if folder is None:
                return
            try:
                prompt = self._works[folder].source.next()
            except OperatorError as error:
                self._stop_dataset(folder, error)
                continue
            if prompt is None:
                self._admission.tracks[folder].left = 0
            else:
                self._start(Job(folder, prompt, CRASHES))

    def _stop_dataset(self, folder: str, error: OperatorError) -> None:
        """A file of one dataset is wrong: that one gets no further prompt, the others go on."""
        work = self._works[folder]
        self._admission.tracks[folder].left = 0
        work.suspects.clear()
        if not work.trouble:
            work.trouble = str(error)
            self._log.say(f"stopped: {error}", folder)

    def _start(self, job: Job) -> None:
        work = self._works[job.folder]
        if not work.begun:
            work.begun = True
            self._log.say("begins", job.folder)
        loop = asyncio.get_running_loop()
        self._admission.admit(job.folder, job.prompt.key, loop.time(), self._options.max_new_tokens)
        self._jobs[job.name] = job
        job.task = loop.create_task(self._do(job), name=job.name)

    async def _do(self, job: Job) -> None:
        try:
            await self._asking.ask(job)
        except OperatorError as error:
            if error.exit_code == ExitCode.FAILED:
                self._stop_dataset(job.folder, error)
            else:
                self._fail(error)
        except OSError as error:
            self._fail(disk_error(error))
        except Exception as error:
            # A fault of ours: a task that ends silently would look like a prompt that is never answered.
            told = f"{type(error).__name__}: {clean(error, 300)}"
            self._fail(
                OperatorError("internal", f"the generator failed unexpectedly ({told})", "restart it, and report this")
            )
        finally:
            del self._jobs[job.name]
            self._wake.set()

    def _close_if_finished(self, work: Work) -> None:
        """A finished dataset is tokenized; suspects that it still needs are asked first, each alone on the engine."""
        folder = work.plan.folder
        track = self._admission.tracks[folder]
        if work.closed or not track.finished or self._blame.holds(folder):
            return
        if work.suspects and track.short:
            if not self._jobs and self._admission.finished and self._gate.is_open and not self._admission.paused:
                self._ask_alone(work, work.suspects.pop(0))
            return
        work.closed = True
        self._log.say(end_line(track, work, stopped=False), folder)
        if work.plan.rebuilds or (work.kept and self._options.retokenize != "never"):
            self._tokenizing.add(folder)

    def _ask_alone(self, work: Work, suspect: Prompt) -> None:
        folder = work.plan.folder
        self._admission.tracks[folder].left += 1
        self._log.say(f"asking suspect {suspect.key} alone", folder)
        job = Job(folder, suspect, CRASHES)
        job.crashes_allowed = self._suspects.crashes(job.name) + 1
        self._start(job)

    def _fail(self, error: OperatorError) -> None:
        """Something ends the run; the first reason counts."""
        if self._error is None:
            self._error = error
            self._log.say(str(error))
        self._wake.set()

    def _crashed(self, in_flight: frozenset[str]) -> None:
        suspects = self._suspects.crashed(in_flight)
        said = f", {len(suspects)} of them for the second time" if suspects else ""
        self._log.say(
            f"the engine had died with {len(in_flight)} of our requests in flight{said}; they are asked again"
        )

    # ---- beside it

    async def _guarded(self, part: Coroutine[Any, Any, None]) -> None:
        """A part of the run that goes on beside it: what it raises ends the run."""
        try:
            await part
        except OperatorError as error:
            self._fail(error)
        except OSError as error:
            self._fail(disk_error(error))

    async def _tick_for_ever(self) -> None:
        loop = asyncio.get_running_loop()
        progress_at = minute_at = loop.time()
        while True:
            await asyncio.sleep(self._pace.control_every_s)
            now = loop.time()
            self._obey()
            self._watchdog.tick(now)
            if now >= progress_at:
                progress_at = now + self._pace.tick_s
                follow(self._layout, 1, 2)
                self._tell()
            if now >= minute_at + self._pace.log_every_s:
                minute_at = now
                self._telling.minute(now)

    async def _watch_model(self) -> None:
        while True:
            await asyncio.sleep(self._pace.model_every_s)
            if self._gate.is_open:
                await self._engine.verify()

    def _obey(self) -> None:
        """Do what control.json says."""
        try:
            control = self._control.changed()
        except OperatorError as error:
            self._log.say(f"{error}; what was asked before stays in force")
            return
        if control is None:
            return
        by = f" by {clean(control.by, 80)}" if control.by else ""
        if control.paused != self._admission.paused:
            self._admission.paused = control.paused
            self._log.say(f"{'paused' if control.paused else 'resumed'}{by}")
        budget = control.token_budget or self._options.token_budget
        if budget != self._budget:
            self._budget = budget
            self._log.say(f"budget changed to {budget}{by}")
            for folder, work in self._works.items():
                self._admission.set_budget(folder, budget.of(folder))
                # A dataset that has more to do again is tokenized again when it is done.
                work.closed = work.closed and self._admission.tracks[folder].finished
        self._wake.set()

    def _tell(self) -> None:
        state = "stopping" if self._stop.asked else "paused" if self._admission.paused else "running"
        now = asyncio.get_running_loop().time()
        self._telling.write(now, state, self._blame.engine_is_failing, self._budget)

    # ---- its end

    async def _finish_jobs(self) -> None:
        """Let what is in flight finish while a drain lasts, then cancel and abort the rest."""
        loop = asyncio.get_running_loop()
        if not self._jobs:
            return
        if self._stop.asked and not self._stop.now and self._error is None:
            self._log.say(f"stopping: {len(self._jobs)} in flight may finish within {self._stop.drain_s:.0f} s")
            self._attempts.stopping = True
            self._cancel_idle()
            while self._jobs and not self._stop.now and self._error is None:
                left_s = self._stop.drain_until - loop.time()
                if left_s <= 0:
                    break
                await self._woken(min(left_s, self._pace.tick_s))
        if self._jobs:
            await self._cancel_jobs()

    def _cancel_idle(self) -> None:
        """Give back at once what is not on the engine: it waits for the engine or between two attempts."""
        asked = {attempt.prompt for attempt in self._attempts.now.values()}
        for name, job in self._jobs.items():
            if name not in asked and not job.writing and job.task is not None:
                job.task.cancel()

    async def _cancel_jobs(self) -> None:
        """Cancel every request and abort it by name; what is being written is finished. Then watch the engine."""
        ours = len(self._attempts.now)
        lost = self._telling.decoded_now(asyncio.get_running_loop().time())
        before = await self._load_now() if ours else None
        self._attempts.stopping = True
        tasks = [job.task for job in self._jobs.values() if job.task is not None]
        for job in self._jobs.values():
            if not job.writing and job.task is not None:
                job.task.cancel()
        await asyncio.wait(tasks, timeout=self._pace.cancel_limit_s)
        if not ours:
            return
        left = len(self._attempts.now)
        said = f"; {left} could not be ended, the next run will" if left else ""
        self._log.say(f"cancelled and aborted {ours} requests, about {lost:,} tokens that were not finished{said}")
        running = await self._engine.wait_fall(ours, before, self._pace.fall_limit_s)
        now = "an unknown number of" if running is None else str(running)
        self._log.say(f"the engine now runs {now} requests")

    async def _load_now(self) -> int | None:
        facts = await self._engine.load()
        return facts.running if facts is not None else None

    async def _finish_tokenizing(self) -> None:
        """Wait for the tokenizing of finished datasets, in a stop at most as long as the drain lasts."""
        waiting = asyncio.ensure_future(self._tokenizing.finish())
        try:
            while not waiting.done():
                if self._stop.asked and (self._stop.now or asyncio.get_running_loop().time() >= self._stop.drain_until):
                    self._log.say("tokenizing is left for the next run")
                    return
                self._wake.clear()
                waking = asyncio.ensure_future(self._wake.wait())
                await asyncio.wait({waiting, waking}, timeout=self._pace.tick_s, return_when=asyncio.FIRST_COMPLETED)
                waking.cancel()
        finally:
            waiting.cancel()

    def _end(self) -> ExitCode:
        """The last lines, and the run's exit code. Raises the OperatorError that ended it."""
        finished = all(work.closed for work in self._works.values())
        code = ExitCode.DONE
        if self._error is not None:
            code = self._error.exit_code
        elif self._stop.asked and not (finished and self._tokenizing.idle):
            code = ExitCode.STOPPED
        elif self._tokenizing.failed:
            code = self._tokenizing.worst
        elif any(work.trouble for work in self._works.values()):
            code = ExitCode.FAILED
        self._telling.end(stopped=self._stop.asked or self._error is not None)
        try:
            self._tell()
            runs.record_end(self._layout, self._settings.run_id, int(code), runs.sizes(self._layout, list(self._works)))
        except OSError as error:
            self._error = self._error or disk_error(error)
        if self._error is not None:
            raise self._error
        return code
