"""The places of the engine: kept full while work is left, and emptied well when the run has to end.

Every prompt that has a place is an asyncio Task, so that cancelling it does something.
"""

from __future__ import annotations

import asyncio

from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.options import Options
from remote.prompts import Prompt
from remote.run_parts import Parts
from remote.run_settings import Pace
from remote.suspects import CRASHES
from remote.telling import end_line
from remote.text import clean
from remote.work import Job, Work


def disk_error(error: OSError) -> OperatorError:
    """What a failed write of a state file comes to."""
    where = f" ({clean(error.filename)})" if error.filename else ""
    return OperatorError(
        "disk",
        f"the disk refuses a write{where}: {error.strerror or error}",
        "free space or repair it, then restart: nothing that was acknowledged is lost",
        ExitCode.DISK,
    )


def internal_error(error: Exception) -> OperatorError:
    """What a fault of our own comes to: the run ends and says so, instead of waiting for what will never come."""
    told = f"{type(error).__name__}: {clean(error, 300)}"
    return OperatorError("internal", f"the generator failed unexpectedly ({told})", "restart it, and report this line")


class Places:
    """The jobs of one run, and what ended it if something did."""

    def __init__(self, parts: Parts, options: Options, pace: Pace, wake: asyncio.Event) -> None:
        self._parts = parts
        self._options = options
        self._pace = pace
        self._wake = wake
        self._jobs: dict[str, Job] = {}
        self._works = parts.works
        self._admission = parts.admission
        self._log = parts.log
        self.error: OperatorError | None = None
        """The first reason that ended the run."""

    async def keep_full(self) -> None:
        """Keep the places full until every dataset is finished, or the run is told to stop or has to."""
        while self.error is None and not self._parts.stop.asked:
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
        for failure in self._parts.blame.give_back():
            self._works[failure.folder].source.put_back(failure.prompt)
            self._admission.tracks[failure.folder].left += 1
        if not self._jobs and self._parts.gate.is_open and self._admission.finished:
            self._parts.asking.set_aside(self._parts.blame.release())

    def _fill(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._parts.gate.is_open:
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
            await self._parts.asking.ask(job)
        except OperatorError as error:
            if error.exit_code == ExitCode.FAILED:
                self._stop_dataset(job.folder, error)
            else:
                self.fail(error)
        except OSError as error:
            self.fail(disk_error(error))
        except Exception as error:
            # A task that ended silently would look like a prompt that is never answered.
            self.fail(internal_error(error))
        finally:
            del self._jobs[job.name]
            self._wake.set()

    def _close_if_finished(self, work: Work) -> None:
        """A finished dataset is tokenized; suspects that it still needs are asked first, each alone on the engine."""
        folder = work.plan.folder
        track = self._admission.tracks[folder]
        if work.closed or not track.finished or self._parts.blame.holds(folder):
            return
        if work.suspects and track.short:
            if not self._jobs and self._admission.finished and self._parts.gate.is_open and not self._admission.paused:
                self._ask_alone(work, work.suspects.pop(0))
            return
        work.closed = True
        self._log.say(end_line(track, work, stopped=False), folder)
        if work.plan.rebuilds or (work.kept and self._options.retokenize != "never"):
            self._parts.tokenizing.add(folder)

    def _ask_alone(self, work: Work, suspect: Prompt) -> None:
        folder = work.plan.folder
        self._admission.tracks[folder].left += 1
        self._log.say(f"asking suspect {suspect.key} alone", folder)
        job = Job(folder, suspect, CRASHES)
        job.crashes_allowed = self._parts.suspects.crashes(job.name) + 1
        self._start(job)

    def fail(self, error: OperatorError) -> None:
        """Something ends the run; the first reason counts."""
        if self.error is None:
            self.error = error
            self._log.say(str(error))
        self._wake.set()

    # ---- at the end

    async def empty(self) -> None:
        """Let what is in flight finish while a drain lasts, then cancel and abort the rest."""
        loop = asyncio.get_running_loop()
        if not self._jobs:
            return
        if self._parts.stop.asked and not self._parts.stop.now and self.error is None:
            self._log.say(f"stopping: {len(self._jobs)} in flight may finish within {self._parts.stop.drain_s:.0f} s")
            self._parts.attempts.stopping = True
            while self._jobs and not self._parts.stop.now and self.error is None:
                # Again and again: one whose attempt fails meanwhile is not asked anew, and would wait for nothing.
                self._cancel_idle()
                left_s = self._parts.stop.drain_until - loop.time()
                if left_s <= 0:
                    break
                await self._woken(min(left_s, self._pace.tick_s))
        if self._jobs:
            await self._cancel_jobs()

    def _cancel_idle(self) -> None:
        """Give back at once what is not on the engine: it waits for the engine or between two attempts."""
        asked = {attempt.prompt for attempt in self._parts.attempts.now.values()}
        for name, job in self._jobs.items():
            if name not in asked and not job.writing and job.task is not None:
                job.task.cancel()

    async def _cancel_jobs(self) -> None:
        """Cancel every request and abort it by name; what is being written is finished. Then watch the engine."""
        ours = len(self._parts.attempts.now)
        lost = self._parts.telling.decoded_now(asyncio.get_running_loop().time())
        before = await self._load_now() if ours else None
        self._parts.attempts.stopping = True
        tasks = [job.task for job in self._jobs.values() if job.task is not None]
        for job in self._jobs.values():
            if not job.writing and job.task is not None:
                job.task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=self._pace.cancel_limit_s)
        if not ours:
            return
        left = len(self._parts.attempts.now)
        said = f"; {left} could not be ended, the next run will" if left else ""
        self._log.say(f"cancelled and aborted {ours} requests, about {lost:,} tokens that were not finished{said}")
        running = await self._parts.engine.wait_fall(ours, before, self._pace.fall_limit_s)
        now = "an unknown number of" if running is None else str(running)
        self._log.say(f"the engine now runs {now} requests")

    async def _load_now(self) -> int | None:
        facts = await self._parts.engine.load()
        return facts.running if facts is not None else None
