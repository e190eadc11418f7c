"""One prompt until it is answered or given up: attempts, each an asyncio Task with an id of its own.

Stopping an attempt cancels its task and aborts its id on the engine: closing a connection alone does not end a request
there. Connections that break and engines that load cost no try, behind a router or not; the watchdog ends what outlives
its deadline.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from remote.acceptance import Answer
from remote.admission import name_of
from remote.blame import MANY_TRIES, TRIES, Blame
from remote.engine import EngineClient
from remote.engine_errors import ContextLimit, EngineDown, EngineError, Permanent, Retryable, WorkerLost
from remote.gate import Gate
from remote.inflight import InflightLog, make_rid
from remote.limits import Limits
from remote.suspects import CRASHES
from remote.workers import Workers


class GivenUp(Exception):
    """A prompt will not be answered: `kind` and `detail` for its tombstone, `certain` when no engine could answer it."""

    def __init__(self, kind: str, detail: str, certain: bool = False) -> None:
        super().__init__(kind)
        self.kind = kind
        self.detail = detail
        self.certain = certain


class Suspected(Exception):
    """The prompt was in flight at two crashes of the engine."""


@dataclass
class Attempt:
    """A request on the engine: `limit` is its token limit, `ended_by` why it was cancelled, if it was.

    `sent_at` and `broke_at`, when it failed, are the loop's seconds.
    """

    rid: str
    prompt: str
    folder: str
    sent_at: float
    limit: int
    broke_at: float = 0.0
    task: asyncio.Task[Answer] | None = None
    ended_by: str | None = None


@dataclass
class Used:
    """What one prompt has used up: `tries` where it may be the reason itself, `many` where that is hardly so, and how many
    `failures` in a row make it wait."""

    tries: int = 0
    many: int = 0
    failures: int = 0

    @property
    def up(self) -> bool:
        """Whether it is to be given up."""
        return self.tries >= TRIES or self.many >= MANY_TRIES


@dataclass
class Counters:
    """What progress.json says of failures: attempts that were repeated, and failures by kind."""

    retries: int = 0
    stripped: int = 0
    errors: dict[str, int] = field(default_factory=dict)

    def note(self, kind: str) -> None:
        """Count one failure."""
        self.errors[kind] = self.errors.get(kind, 0) + 1


@dataclass(frozen=True)
class Backoff:
    """Seconds before another attempt: doubling from `first_s` to `longest_s`, each shortened by chance by up to half."""

    first_s: float = 0.25
    longest_s: float = 30.0

    def wait_s(self, failures: int) -> float:
        """The pause after so many failures in a row."""
        return min(self.longest_s, self.first_s * 2.0 ** min(failures, 12)) * random.uniform(0.5, 1.0)


class Attempts:
    """Asks the engine for one run; `crashes` says how many crashes of the engine a prompt was part of."""

    def __init__(
        self,
        client: EngineClient,
        gate: Gate,
        workers: Workers,
        inflight: InflightLog,
        blame: Blame,
        crashes: Callable[[str], int],
        sampling: Mapping[str, Any],
        run: str,
        backoff: Backoff,
    ) -> None:
        self._client = client
        self._gate = gate
        self._workers = workers
        self._inflight = inflight
        self._blame = blame
        self._crashes = crashes
        self._sampling = sampling
        self._run = run
        self._backoff = backoff
        self._number = 0
        self.counters = Counters()
        self.now: dict[str, Attempt] = {}
        """Every attempt on the engine, by rid."""
        self.stopping = False
        """Set before the tasks are cancelled: no further attempt begins."""

    async def answer(
        self,
        folder: str,
        key: str,
        prompt_ids: Sequence[int],
        limits: Limits,
        sent: Callable[[float, int], None],
        crashes_allowed: int = CRASHES,
    ) -> Answer:
        """Ask until there is an answer. `sent(now, limit)` is told of each attempt as it goes out.

        Raises GivenUp, Suspected (when the engine died that often with it in flight), Refused, and OSError when the
        attempt cannot be noted.
        """
        name = name_of(folder, key)
        self._number += 1
        number, sends, used = self._number, 0, Used()
        while True:
            await self._gate.wait_open()
            if self.stopping:
                raise asyncio.CancelledError
            if self._crashes(name) >= crashes_allowed:
                raise Suspected
            limit = limits.of(len(prompt_ids))
            if limit < 1:
                raise GivenUp("too-long", f"{len(prompt_ids)} prompt tokens leave no room in the context", certain=True)
            sends += 1
            attempt = Attempt(make_rid(self._run, number, sends), name, folder, self._clock(), limit)
            try:
                return await self._once(attempt, key, prompt_ids, sent)
            except ContextLimit as error:
                self.counters.note(error.kind)
                limits.learn(error.context_tokens)
                if limits.of(len(prompt_ids)) >= limit:
                    raise GivenUp("too-long", error.detail, certain=True) from None
            except EngineError as error:
                self.counters.note(error.kind)
                await self._charge(error, attempt, used)
                if used.up:
                    raise GivenUp(error.kind, error.detail) from None
                self.counters.retries += 1
                await asyncio.sleep(self._backoff.wait_s(used.failures))
                used.failures += 1

    async def _charge(self, error: EngineError, attempt: Attempt, used: Used) -> None:
        """Charge a failure to its prompt, or to nobody. Raises it, or GivenUp, where asking again is useless."""
        if isinstance(error, Permanent):
            raise GivenUp(error.kind, error.detail, certain=True) from None
        if isinstance(error, EngineDown):
            crashes = self._crashes(attempt.prompt)
            self._gate.report(error.detail, attempt.prompt if error.in_flight else None)
            await self._gate.wait_open()
            # Who was part of a crash is counted among the suspects, and that ends sooner.
            if error.in_flight and self._crashes(attempt.prompt) == crashes:
                used.many += 1
        elif isinstance(error, WorkerLost):
            used.many += 0 if await self._is_away(error, attempt) else 1
        elif isinstance(error, Retryable):
            self._charge_for(error, attempt, used)
        else:
            raise error

    async def _is_away(self, error: WorkerLost, attempt: Attempt) -> bool:
        """Whether the engine behind the router is away; an engine without a name may be alive."""
        if error.worker is None:
            return False
        return await self._workers.lost(error.worker, attempt.prompt, attempt.sent_at, attempt.broke_at)

    def _charge_for(self, error: Retryable, attempt: Attempt, used: Used) -> None:
        if error.kind == "engine-busy":
            self._gate.ask(error.detail)
        elif error.kind == "aborted":
            used.many += 1
        elif error.uses_try:
            self._blame.failed(attempt.prompt, self._clock())
            used.tries += 0 if self._blame.engine_is_failing else 1

    async def _once(
        self, attempt: Attempt, key: str, prompt_ids: Sequence[int], sent: Callable[[float, int], None]
    ) -> Answer:
        self._inflight.begin(attempt.rid, attempt.folder, key)
        self.now[attempt.rid] = attempt
        sent(attempt.sent_at, attempt.limit)
        ended = False
        attempt.task = asyncio.create_task(
            self._client.generate(prompt_ids, self._sampling, attempt.limit, attempt.rid), name=attempt.rid
        )
        try:
            answer = await attempt.task
            ended = True
            self.counters.stripped += 1 if answer.stripped else 0
            return answer
        except EngineError as error:
            attempt.broke_at = self._clock()
            # A broken connection may have left it running: only an answer says that it ended.
            ended = not (isinstance(error, WorkerLost) or (isinstance(error, EngineDown) and error.in_flight))
            raise
        except asyncio.CancelledError:
            if attempt.ended_by is None:
                attempt.task.cancel()
                raise
            raise Retryable(attempt.ended_by, attempt.ended_by, uses_try=attempt.ended_by == "deadline") from None
        finally:
            self.now.pop(attempt.rid, None)
            # What could not be aborted stays noted: the next run, or the supervisor, aborts it.
            if ended or await asyncio.shield(asyncio.ensure_future(self._client.abort(attempt.rid))):
                self._inflight.end(attempt.rid)

    def end(self, attempt: Attempt, why: str) -> None:
        """Cancel an attempt that still runs, and abort it: `deadline` uses a try of its prompt, `stalled` does not."""
        if attempt.task is not None and not attempt.task.done():
            attempt.ended_by = why
            attempt.task.cancel()

    @staticmethod
    def _clock() -> float:
        return asyncio.get_running_loop().time()
