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

from remote import figures, runs
from remote.control import ControlWatch, write_control
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.inflight import abort_leftovers
from remote.layout import Layout
from remote.lock import RunLock
from remote.places import Places, disk_error, internal_error
from remote.preparing import Prepared, prepare
from remote.rotation import follow
from remote.run_parts import make_parts
from remote.run_settings import Ready, RunSettings
from remote.runlog import RunLog
from remote.text import clean


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
    layout.check_root()
    return RunLock.take(layout, "generate", accept_unlocked="cannot-lock" in settings.options.accept)


class Run:
    """One run from its first prompt to its last line. Make it inside the event loop."""

    def __init__(self, layout: Layout, settings: RunSettings, prepared: Prepared, lock_fd: int, ready: Ready) -> None:
        self._layout = layout
        self._settings = settings
        self._options = settings.options
        self._pace = settings.pace
        self._prepared = prepared
        self._ready = ready
        self._wake = asyncio.Event()
        self._budget = settings.options.token_budget
        self._log = RunLog(settings.api_key)
        layout.make_state()
        left = abort_leftovers(layout, settings.api_key)
        if left.found:
            rest = f" ({left.detail})" if left.detail else ""
            self._log.say(f"an earlier run left {left.found} requests on the engine; {left.aborted} aborted{rest}")
        self._parts = make_parts(layout, settings, prepared, lock_fd, self._log, self._wake.set)
        self._places = Places(self._parts, settings.options, settings.pace, self._wake)
        self._control = ControlWatch(layout, settings.run_id)

    # ---- the course of a run

    async def main(self) -> ExitCode:
        """From ready to the exit code. Raises OperatorError for what ended it early, and OSError."""
        loop = asyncio.get_running_loop()
        self._parts.stop.listen()
        self._begin()
        parts = {"gate": self._parts.gate.keep(), "ticks": self._tick_for_ever(), "model": self._watch_model()}
        background = [loop.create_task(self._guarded(part), name=name) for name, part in parts.items()]
        try:
            await self._guarded(self._places.keep_full())
            await self._places.empty()
            if self._places.error is None:
                self._parts.asking.set_aside(self._parts.blame.release())
                await self._finish_tokenizing()
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            await self._guarded(self._parts.close())
            self._parts.stop.deaf()
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
        runs.record_start(self._layout, start, runs.sizes(self._layout, list(self._parts.works)))
        write_control(self._layout, paused=False, run=run_id)
        self._log.say(f"run {run_id} begins; times are {time.strftime('%Z %z')}")
        for plan in self._prepared.plan.datasets:
            expected = (
                f", about {figures.plural(plan.expected.responses, 'answer')}" if plan.expected is not None else ""
            )
            self._log.say(f"{plan.decision}: {plan.reason}{expected}", plan.folder)
        self._tell()
        self._ready.yes()
        for plan in self._prepared.plan.datasets:
            if not plan.works and plan.tokenization == "rebuild":
                self._parts.tokenizing.add(plan.folder)

    # ---- beside it

    async def _guarded(self, part: Coroutine[Any, Any, None]) -> None:
        """A part of the run that goes on beside it: what it raises ends the run."""
        try:
            await part
        except OperatorError as error:
            self._places.fail(error)
        except OSError as error:
            self._places.fail(disk_error(error))
        except Exception as error:
            self._places.fail(internal_error(error))

    async def _tick_for_ever(self) -> None:
        loop = asyncio.get_running_loop()
        progress_at = minute_at = loop.time()
        while True:
            await asyncio.sleep(self._pace.control_every_s)
            now = loop.time()
            self._obey()
            self._parts.watchdog.tick(now)
            if now >= progress_at:
                progress_at = now + self._pace.tick_s
                follow(self._layout, 1, 2)
                self._tell()
            if now >= minute_at + self._pace.log_every_s:
                minute_at = now
                self._parts.telling.minute(now)

    async def _watch_model(self) -> None:
        while True:
            await asyncio.sleep(self._pace.model_every_s)
            if self._parts.gate.is_open:
                await self._parts.engine.verify()

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
        if control.paused != self._parts.admission.paused:
            self._parts.admission.paused = control.paused
            self._log.say(f"{'paused' if control.paused else 'resumed'}{by}")
        budget = control.token_budget or self._options.token_budget
        if budget != self._budget:
            self._budget = budget
            self._log.say(f"budget changed to {budget}{by}")
            for folder, work in self._parts.works.items():
                self._parts.admission.set_budget(folder, budget.of(folder))
                # A dataset that has more to do again is tokenized again when it is done.
                work.closed = work.closed and self._parts.admission.tracks[folder].finished
        self._wake.set()

    def _tell(self) -> None:
        state = "stopping" if self._parts.stop.asked else "paused" if self._parts.admission.paused else "running"
        now = asyncio.get_running_loop().time()
        self._parts.telling.write(now, state, self._parts.blame.engine_is_failing, self._budget)

    # ---- its end

    async def _finish_tokenizing(self) -> None:
        """Wait for the tokenizing of finished datasets, in a stop at most as long as the drain lasts."""
        waiting = asyncio.ensure_future(self._parts.tokenizing.finish())
        try:
            while not waiting.done():
                if self._parts.stop.asked and (
                    self._parts.stop.now or asyncio.get_running_loop().time() >= self._parts.stop.drain_until
                ):
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
        finished = all(work.closed for work in self._parts.works.values())
        code = ExitCode.DONE
        if self._places.error is not None:
            code = self._places.error.exit_code
        elif self._parts.stop.asked and not (finished and self._parts.tokenizing.idle):
            code = ExitCode.STOPPED
        elif self._parts.tokenizing.failed:
            code = self._parts.tokenizing.worst
        elif any(work.trouble for work in self._parts.works.values()):
            code = ExitCode.FAILED
        self._parts.telling.end(stopped=self._parts.stop.asked or self._places.error is not None)
        try:
            self._tell()
            runs.record_end(
                self._layout, self._settings.run_id, int(code), runs.sizes(self._layout, list(self._parts.works))
            )
        except OSError as error:
            self._places.error = self._places.error or disk_error(error)
        if self._places.error is not None:
            raise self._places.error
        return code
