"""One prompt from its place to its end: rendered, asked, and kept, set aside, or given back.

Whatever happens, the place is free afterwards and admission has been told. What concerns the prompt alone ends here; what
concerns the run (the disk, an engine that refuses) is raised.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from remote.acceptance import Answer
from remote.admission import Admission
from remote.answers import AnswerWriter
from remote.attempts import Attempts, GivenUp, Suspected
from remote.blame import ALIKE, Blame, Failure
from remote.engine_errors import Refused
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.limits import Limits
from remote.lines import answer_line, record_line
from remote.preparing import Prepared
from remote.prompts import Prompt
from remote.render import Unrenderable, prompt_digest
from remote.served import ServedEngine
from remote.suspects import CRASHES, Suspects
from remote.tombstones import CRASH_SUSPECT, Tombstones
from remote.watchdog import Watchdog
from remote.work import Job, Work

Say = Callable[[str, str], None]


class Asking:
    """The part of a run that deals with single prompts; `say(text, folder)` is told of events."""

    def __init__(
        self,
        run_id: str,
        prepared: Prepared,
        works: Mapping[str, Work],
        admission: Admission,
        attempts: Attempts,
        limits: Limits,
        writer: AnswerWriter,
        tombstones: Tombstones,
        suspects: Suspects,
        blame: Blame,
        engine: ServedEngine,
        watchdog: Watchdog,
        say: Say,
    ) -> None:
        self._run_id = run_id
        self._prepared = prepared
        self._works = works
        self._admission = admission
        self._attempts = attempts
        self._limits = limits
        self._writer = writer
        self._tombstones = tombstones
        self._suspects = suspects
        self._blame = blame
        self._engine = engine
        self._watchdog = watchdog
        self._say = say

    async def ask(self, job: Job) -> None:
        """Deal with one prompt that has been admitted. Raises OperatorError and OSError for what ends the run."""
        kept = back = False
        try:
            kept = await self._answered(job)
        except GivenUp as given:
            failure = Failure(job.folder, job.prompt, job.digest, given.kind, given.detail, given.certain)
            self.set_aside(self._blame.given_up(failure))
            alike = self._blame.alike(others=self._admission.names() - {job.name})
            if alike is not None:
                raise _all_alike(alike) from None
        except Suspected:
            self._suspect(job)
        except Refused as error:
            back = True
            raise OperatorError(
                error.kind, error.detail, "set the engine right, then restart", ExitCode.REFUSED
            ) from None
        except (OperatorError, OSError, asyncio.CancelledError):
            back = True
            raise
        finally:
            if not kept:
                self._admission.dropped(job.folder, job.prompt.key, back)

    async def _answered(self, job: Job) -> bool:
        """Ask and keep. False when the prompt turns out to be set aside already, under the same ids."""
        folder, prompt = job.folder, job.prompt
        ids = await self._render(prompt)
        job.digest = prompt_digest(ids)
        if self._is_set_aside(job):
            return False
        vocab_size = self._prepared.model.vocab_size
        if min(ids) < 0 or max(ids) >= vocab_size:
            # Sent, it would end the whole engine.
            raise GivenUp(
                "outside-vocabulary", f"it has an id that is not in the vocabulary of {vocab_size}", certain=True
            )
        answer = await self._attempts.answer(
            folder,
            prompt.key,
            ids,
            self._limits,
            lambda now, limit: self._admission.sent(folder, prompt.key, now, limit),
            job.crashes_allowed,
        )
        job.writing = True
        await self._keep(job, answer)
        return True

    def _is_set_aside(self, job: Job) -> bool:
        stone = self._tombstones.of(job.folder).get(job.prompt.key)
        if stone is None or self._prepared.options.retry_failed or job.crashes_allowed > CRASHES:
            return False
        return stone.prompt_digest in (None, job.digest)

    async def _render(self, prompt: Prompt) -> list[int]:
        tokenizer = self._prepared.tokenizer
        assert tokenizer is not None, "a plan that works has loaded the tokenizer"
        try:
            return await asyncio.get_running_loop().run_in_executor(None, tokenizer.prompt_ids, prompt)
        except Unrenderable as error:
            raise GivenUp("unrenderable", str(error)) from None

    async def _keep(self, job: Job, answer: Answer) -> None:
        """Write an answer; it counts once the disk has acknowledged it."""
        folder, prompt, at = job.folder, job.prompt, time.time()
        provenance = answer_line(prompt, answer, self._run_id, job.digest or "", at)
        await self._writer.write(folder, record_line(prompt, answer), provenance)
        now, tokens = asyncio.get_running_loop().time(), len(answer.output_ids)
        sent_at = self._admission.kept(folder, prompt.key, now, tokens)
        self._watchdog.alive(now)
        work = self._works[folder]
        work.recent.add(now, tokens)
        work.last_answer_at = at
        work.answered += 1
        work.kept += 1
        self._suspects.cleared(job.name)
        stone = self._tombstones.lift(folder, prompt.key)
        if stone is not None and work.set_aside[stone.reason]:
            work.set_aside[stone.reason] -= 1
        self._engine.answered(answer.weight_version)
        self.set_aside(self._blame.answered(sent_at))

    def set_aside(self, failures: list[Failure]) -> None:
        """Write tombstones. Raises OSError."""
        for failure in failures:
            key = failure.prompt.key
            self._tombstones.add(failure.folder, key, failure.digest, failure.kind, failure.detail)
            self._works[failure.folder].set_aside[failure.kind] += 1
            self._say(f"set aside {key}: {failure.kind}, {failure.detail}", failure.folder)

    def _suspect(self, job: Job) -> None:
        """Set a suspect aside; it is asked alone at the end, unless that is what it was just now."""
        crashes = self._suspects.crashes(job.name)
        detail = f"in flight at {crashes} crashes of the engine"
        if job.crashes_allowed > CRASHES:
            self._say(f"{job.prompt.key} was asked alone and the engine died again: it stays set aside", job.folder)
            return
        self.set_aside([Failure(job.folder, job.prompt, job.digest, CRASH_SUSPECT, detail)])
        self._works[job.folder].suspects.append(job.prompt)


def _all_alike(failure: Failure) -> OperatorError:
    return OperatorError(
        failure.kind,
        f"the first {ALIKE} different prompts all failed alike ({failure.kind}: {failure.detail}), so the fault is not theirs; "
        "none was set aside",
        "set the engine, --model-path or --sampling right, then restart",
        ExitCode.REFUSED,
    )
