"""What a run is made of, put together in one place; nothing here decides anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from remote.acceptance import Acceptance
from remote.admission import Admission
from remote.answers import AnswerWriter
from remote.asking import Asking
from remote.attempts import Attempts
from remote.blame import Blame
from remote.engine import EngineClient
from remote.gate import Gate
from remote.inflight import InflightLog
from remote.layout import Layout
from remote.limits import Limits
from remote.preparing import Prepared, make_source, make_track
from remote.recent import Recent
from remote.run_settings import RunSettings
from remote.runlog import RunLog
from remote.served import ServedEngine
from remote.stopping import StopRequest
from remote.suspects import Suspects
from remote.telling import Telling
from remote.tokenizing import Tokenizing
from remote.tombstones import Tombstones
from remote.watchdog import Watchdog
from remote.work import Work
from remote.workers import Workers


@dataclass(frozen=True)
class Parts:
    """The parts of one run, each of which knows only those that it needs."""

    works: dict[str, Work]
    admission: Admission
    suspects: Suspects
    blame: Blame
    client: EngineClient
    engine: ServedEngine
    gate: Gate
    workers: Workers
    inflight: InflightLog
    attempts: Attempts
    watchdog: Watchdog
    writer: AnswerWriter
    asking: Asking
    tokenizing: Tokenizing
    telling: Telling
    stop: StopRequest
    log: RunLog

    async def close(self) -> None:
        """Close connections and files. Raises OperatorError when answers that were handed in cannot be written."""
        await self.workers.close()
        await self.tokenizing.stop()
        try:
            await self.writer.close()
        finally:
            await self.client.close()
            self.inflight.close()


def make_parts(
    layout: Layout, settings: RunSettings, prepared: Prepared, lock_fd: int, log: RunLog, changed: Callable[[], None]
) -> Parts:
    """Make them, inside the event loop; `changed` is called when somebody asks the run to stop. Begins the log of
    requests in flight: what an earlier run left in it has to be dealt with before. Raises OperatorError and OSError."""
    options, run_id, pace = settings.options, settings.run_id, settings.pace
    now = asyncio.get_running_loop().time()
    suspects, blame, tombstones = Suspects(), Blame(), Tombstones(layout, run_id)
    limits = Limits(options.max_new_tokens, prepared.model.context_length)
    works = {
        plan.folder: Work(
            plan,
            make_source(layout, prepared, plan.folder, tombstones),
            Recent(now),
            plan.answered,
            closed=not plan.works,
        )
        for plan in prepared.working
    }
    tracks = [make_track(prepared, plan) for plan in prepared.working]
    admission = Admission(options.concurrency, tracks, options.max_new_tokens)
    for scan in prepared.scans.values():
        admission.seed_everyone((length, 1) for length in scan.answer_lengths())
    acceptance = Acceptance(prepared.model.vocab_size)
    client = EngineClient(options.engine_url, settings.api_key, options.concurrency, acceptance)

    def meet(urls: tuple[str, ...]) -> None:
        client.workers = urls
        workers.meet(urls)

    engine = ServedEngine(layout, run_id, options, prepared.model, settings.api_key, limits, meet, log.say)
    look_limit_s = pace.gate.look_limit_s
    workers = Workers(
        lambda url: engine.health(look_limit_s, url), log.say, lambda prompt: suspects.crashed([prompt]), pace.gate
    )

    def crashed(in_flight: frozenset[str]) -> None:
        again = suspects.crashed(in_flight)
        said = f", {len(again)} of them for the second time" if again else ""
        log.say(f"the engine had died with {len(in_flight)} of our requests in flight{said}; they are asked again")

    async def look() -> tuple[str, str]:
        # A router says that it is healthy as long as it is one itself.
        found = await engine.health(look_limit_s)
        return found if found[0] != "healthy" else await workers.health() or found

    gate = Gate(look, engine.verify, log.say, crashed, pace.gate)
    inflight = InflightLog(layout, run_id, options.engine_url)
    attempts = Attempts(client, gate, workers, inflight, blame, suspects.crashes, prepared.sent, run_id, pace.backoff)
    watchdog = Watchdog(attempts, lambda: admission.speed_tokens_s, engine.load, log.say, pace.watch)
    writer = AnswerWriter(layout, on_repair=lambda repair: log.say(str(repair)))
    asking = Asking(
        run_id=run_id,
        prepared=prepared,
        works=works,
        admission=admission,
        attempts=attempts,
        limits=limits,
        writer=writer,
        tombstones=tombstones,
        suspects=suspects,
        blame=blame,
        engine=engine,
        watchdog=watchdog,
        say=log.say,
    )
    tokenizing = Tokenizing(options, lock_fd, log.say)
    telling = Telling(layout, run_id, works, admission, attempts, gate, tokenizing, log)
    stop = StopRequest(layout, run_id, options.drain_s, changed)
    return Parts(
        works=works,
        admission=admission,
        suspects=suspects,
        blame=blame,
        client=client,
        engine=engine,
        gate=gate,
        workers=workers,
        inflight=inflight,
        attempts=attempts,
        watchdog=watchdog,
        writer=writer,
        asking=asking,
        tokenizing=tokenizing,
        telling=telling,
        stop=stop,
        log=log,
    )
