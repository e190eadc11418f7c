"""The thread that writes answers down, so that a slow disk never holds up the requests.

Each answer is two lines: where it came from in `.eagle3/answers/FOLDER.jsonl`, then the
record in `raw_responses.jsonl`, in this order and each made durable before the next. After a
crash there may be a provenance line too many, never a record without one; of several lines
of a sample the last one belongs to its record.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.journal import Journal
from remote.layout import RESPONSES, Layout
from remote.tail import TailRepair
from remote.text import clean

GROUP = 256
"""At most so many answers share one fsync."""


@dataclass
class _Job:
    """One answer on its way, or (without lines) the request to open a dataset's files."""

    folder: str
    done: asyncio.Future[list[TailRepair]]
    loop: asyncio.AbstractEventLoop
    record: bytes = b""
    answer: bytes = b""
    since: float = field(default_factory=time.monotonic)

    def finish(self, error: OperatorError | None, repairs: list[TailRepair]) -> None:
        """Tell the waiting task; it may have been cancelled, and its loop may be gone."""

        def tell() -> None:
            if self.done.done():
                return
            if error is None:
                self.done.set_result(repairs)
            else:
                self.done.set_exception(error)

        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(tell)


class AnswerWriter:
    """The journals of one run. `write` returns when the answer is on the disk.

    `fsync_every_s` None makes every answer durable before it is acknowledged; a number makes
    that happen at most so often. Errors are those of `Journal`; after a disk error every
    further write of that dataset fails with it.
    """

    def __init__(
        self,
        layout: Layout,
        fsync_every_s: float | None = None,
        on_repair: Callable[[TailRepair], None] | None = None,
    ) -> None:
        self._layout = layout
        self._fsync_every_s = fsync_every_s
        self._on_repair = on_repair
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._journals: dict[str, tuple[Journal, Journal]] = {}
        self._oldest: float | None = None
        self._waiting = 0
        self._close_error: OperatorError | None = None
        self._closing = False
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, name="answers", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Answers handed in and not yet on the disk."""
        return self._waiting

    @property
    def stalled_s(self) -> float:
        """For how long the disk has been at work on the present group; 0 when it is idle."""
        oldest = self._oldest
        return 0.0 if oldest is None else time.monotonic() - oldest

    async def open(self, folder: str) -> list[TailRepair]:
        """Open and lock a dataset's files and repair their ends; what was repaired. Raises OperatorError."""
        return await self._hand_in(_Job(folder, *_future()))

    async def write(self, folder: str, record_line: bytes, answer_line: bytes) -> None:
        """Write one answer (both lines with their newline). Returns when it is acknowledged.

        A task that is cancelled meanwhile leaves the answer written or not, never half.
        Raises OperatorError; ValueError when one of the two is not one line.
        """
        for line in (record_line, answer_line):
            if line.count(b"\n") != 1 or not line.endswith(b"\n"):
                raise ValueError("an answer is one line in each file")
        await self._hand_in(_Job(folder, *_future(), record_line, answer_line))

    async def close(self, timeout_s: float = 60.0) -> None:
        """Write what is waiting, make it durable, unlock. Raises OperatorError, also when the disk hangs."""
        self._closing = True
        self._jobs.put(None)
        finished = await asyncio.get_running_loop().run_in_executor(None, self._closed.wait, timeout_s)
        if not finished:
            raise OperatorError(
                "disk",
                f"the disk under {clean(self._layout.root)} has not answered for {timeout_s:.0f} s",
                "look at the kernel's log; what was acknowledged is safe",
                ExitCode.DISK,
            )
        if self._close_error is not None:
            raise self._close_error

    async def _hand_in(self, job: _Job) -> list[TailRepair]:
        if self._closing:
            raise OperatorError("closed", "the answer files are closed already")
        self._waiting += 1
        try:
            self._jobs.put(job)
            return await job.done
        finally:
            self._waiting -= 1

    # ---- in the thread

    def _work(self) -> None:
        try:
            ended = False
            while not ended:
                group, ended = self._next_group()
                for folder in dict.fromkeys(job.folder for job in group):
                    self._write_group(folder, [job for job in group if job.folder == folder])
                self._oldest = None
                if not group:
                    self._sync_all()
        finally:
            self._close_all()
            self._closed.set()

    def _next_group(self) -> tuple[list[_Job], bool]:
        """What is waiting, and whether it is the last; nothing when the time for an fsync has come."""
        group: list[_Job] = []
        try:
            job = self._jobs.get(timeout=self._fsync_every_s)
            while job is not None:
                self._oldest = self._oldest or job.since
                group.append(job)
                if len(group) == GROUP:
                    return group, False
                job = self._jobs.get_nowait()
        except queue.Empty:
            return group, False
        return group, True

    def _write_group(self, folder: str, jobs: list[_Job]) -> None:
        try:
            answers, records, repairs = self._open(folder)
            for job in jobs:
                if not job.record:
                    job.finish(None, repairs)
            left = self._append(answers, [job for job in jobs if job.record], lambda job: job.answer)
            for job in self._append(records, left, lambda job: job.record):
                job.finish(None, repairs)
        except OperatorError as error:
            self._fail(jobs, error)
        except Exception as error:  # a fault of ours must not leave the tasks waiting for ever
            told = f"the answers of {clean(folder)} cannot be written: {clean(repr(error))}"
            self._fail(jobs, OperatorError("answers", told, "report this; what was acknowledged is safe"))

    @staticmethod
    def _fail(jobs: list[_Job], error: OperatorError) -> None:
        """Tell those that have not been told anything yet."""
        for job in jobs:
            job.finish(error, [])

    def _append(self, journal: Journal, jobs: list[_Job], line_of: Callable[[_Job], bytes]) -> list[_Job]:
        """Append a line for each job and make them durable; those that are. The others are told why not."""
        written: list[_Job] = []
        error: OperatorError | None = None
        for job in jobs:
            if error is None:
                try:
                    journal.append(line_of(job))
                    written.append(job)
                    continue
                except OperatorError as caught:
                    error = caught
            job.finish(error, [])
        try:
            if error is None:
                journal.sync()
            else:
                journal.rescue()
        except OperatorError as caught:
            for job in written:
                job.finish(caught, [])
            return []
        return written

    def _open(self, folder: str) -> tuple[Journal, Journal, list[TailRepair]]:
        known = self._journals.get(folder)
        if known is not None:
            return (*known, [])
        torn = self._layout.torn
        sidecar = self._layout.answers_of(folder)
        try:
            sidecar.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OperatorError(
                "disk",
                f"{clean(sidecar.parent)} cannot be made: {error.strerror}",
                "make the data folder writable",
                ExitCode.DISK,
            ) from error
        records = Journal(self._layout.folder(folder) / RESPONSES, torn, self._fsync_every_s)
        try:
            answers = Journal(sidecar, torn, self._fsync_every_s)
        except BaseException:
            records.close()
            raise
        self._journals[folder] = (answers, records)
        repairs = [journal.repair for journal in (records, answers) if journal.repair.kind != "clean"]
        if self._on_repair is not None:
            for repair in repairs:
                self._on_repair(repair)
        return answers, records, repairs

    def _sync_all(self) -> None:
        """The time is up: make durable what the policy let wait. A failure is told by the next write, and at close."""
        for journals in self._journals.values():
            for journal in journals:
                with contextlib.suppress(OperatorError):
                    journal.sync()

    def _close_all(self) -> None:
        for journals in self._journals.values():
            for journal in journals:
                try:
                    journal.close()
                except OperatorError as error:
                    self._close_error = self._close_error or error


def _future() -> tuple[asyncio.Future[list[TailRepair]], asyncio.AbstractEventLoop]:
    loop = asyncio.get_running_loop()
    return loop.create_future(), loop
