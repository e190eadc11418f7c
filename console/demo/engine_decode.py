"""How the stand-in engine decodes: answers as a function of seed and prompt, and time as a shared processor.

Requests wait in a queue, at most `max_running` decode at once, each at
`min(request_tokens_s, batch_tokens_s / running)` tokens a second. Time is kept as *decoded tokens per running request*
(a virtual clock that every running request shares), so that an event costs O(log n) and nothing ticks.
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import itertools
import json
import math
import random
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_POOL = 1 << 16


@dataclass(frozen=True)
class Vocabulary:
    """The ids a model may say: its size, its ends of sequence, its special ids, and `</think>` where it has one."""

    size: int = 163_840
    eos_ids: tuple[int, ...] = (163_585, 163_586)
    special_ids: frozenset[int] = frozenset()
    think_end: int | None = None


def _json_of(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _ids(value: object) -> list[int]:
    return [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, int)]


def read_vocabulary(model_path: Path) -> Vocabulary:
    """The vocabulary of a model folder: config.json, generation_config.json and the tokenizer's added tokens.

    What is missing keeps Kimi-K2.5's figures.
    """
    config = _json_of(model_path / "config.json")
    text = config.get("text_config") if isinstance(config.get("text_config"), dict) else {}
    size = config.get("vocab_size") or (text or {}).get("vocab_size") or Vocabulary.size
    eos = [
        *_ids(config.get("eos_token_id")),
        *_ids(_json_of(model_path / "generation_config.json").get("eos_token_id")),
    ]
    added: dict[int, str] = {}
    for item in _json_of(model_path / "tokenizer.json").get("added_tokens") or []:
        added[item["id"]] = str(item.get("content"))
    for key, item in (_json_of(model_path / "tokenizer_config.json").get("added_tokens_decoder") or {}).items():
        added[int(key)] = str(item.get("content"))
    think = next((number for number, text in added.items() if text == "</think>"), None)
    return Vocabulary(int(size), tuple(dict.fromkeys(eos)) or Vocabulary.eos_ids, frozenset(added), think)


@dataclass(frozen=True)
class Answer:
    """What the model says to a prompt: the ids with their end, and whether it ended by itself."""

    ids: list[int]
    matched: int | None


class Speaker:
    """Answers that depend on the seed and the prompt's ids alone: asked again, it says the same.

    Lengths are lognormal with the mean and the sigma given; ids come from the ordinary part of the vocabulary.
    """

    def __init__(self, vocabulary: Vocabulary, seed: int, mean_tokens: float, sigma: float) -> None:
        self._vocabulary = vocabulary
        self._seed = seed
        self._mu = math.log(mean_tokens) - sigma * sigma / 2
        self._sigma = sigma
        never = vocabulary.special_ids | set(vocabulary.eos_ids)
        ordinary = [number for number in range(min(vocabulary.size, 1 << 18)) if number not in never]
        chosen = random.Random(seed)
        self._pool = [chosen.choice(ordinary) for _ in range(_POOL)]

    def answer(self, prompt_ids: Sequence[int], max_new_tokens: int) -> Answer:
        """The answer to a prompt, cut at `max_new_tokens`."""
        digest = hashlib.sha256(f"{self._seed}:{','.join(map(str, prompt_ids))}".encode()).digest()
        chosen = random.Random(digest)
        length = max(2, round(chosen.lognormvariate(self._mu, self._sigma)))
        start = chosen.randrange(_POOL)
        count = min(length, max_new_tokens)
        ids = self._pool[start : start + count]
        while len(ids) < count:
            ids += self._pool[: count - len(ids)]
        think_at = int(length * 0.4)
        if self._vocabulary.think_end is not None and think_at < count:
            ids[think_at] = self._vocabulary.think_end
        if length > max_new_tokens:
            return Answer(ids, None)
        ids[-1] = self._vocabulary.eos_ids[-1]
        return Answer(ids, ids[-1])


@dataclass
class Job:
    """One request inside the engine; `done` holds its finish type when it ends: `stop`, `length` or `abort`."""

    rid: str
    prompt_ids: list[int]
    answer: Answer
    done: asyncio.Future[str]
    never_ends: bool = False
    started_at_tokens: float | None = None
    stopped_at: int = 0
    order: int = field(default=0)


def _end(job: Job, how: str) -> None:
    if not job.done.done():
        job.done.set_result(how)


class Scheduler:
    """The running batch and the queue before it."""

    def __init__(self, max_running: int, request_tokens_s: float, batch_tokens_s: float) -> None:
        self.max_running = max_running
        self.request_tokens_s = request_tokens_s
        self.batch_tokens_s = batch_tokens_s
        self.running: dict[int, Job] = {}
        self.waiting: deque[Job] = deque()
        self.generated_tokens = 0
        self.aborted = 0
        self._decoded = 0.0
        self._at = 0.0
        self._ends: list[tuple[float, int]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._order = itertools.count()

    @property
    def speed(self) -> float:
        """Tokens a second of each running request."""
        return min(self.request_tokens_s, self.batch_tokens_s / max(1, len(self.running)))

    def decoded(self, job: Job) -> int:
        """Tokens that a job has decoded so far."""
        if job.started_at_tokens is None:
            return 0
        return min(int(self._decoded_now() - job.started_at_tokens), len(job.answer.ids))

    def used_tokens(self) -> int:
        """Prompt and decoded tokens that the running batch holds."""
        return sum(len(job.prompt_ids) + self.decoded(job) for job in self.running.values())

    def jobs(self) -> Iterable[Job]:
        """Everything that runs or waits."""
        return [*self.running.values(), *self.waiting]

    def submit(self, job: Job) -> None:
        """Take a job in; its `done` is set when it ends."""
        job.order = next(self._order)
        self.waiting.append(job)
        self._step()

    def abort(self, prefix: str) -> None:
        """End every job whose rid begins with `prefix`: the real scheduler matches by prefix too."""
        for job in list(self.jobs()):
            if not job.rid.startswith(prefix) or job.done.done():
                continue
            job.stopped_at = self.decoded(job)
            self.aborted += 1
            if job.order in self.running:
                self._advance()
                del self.running[job.order]
            else:
                self.waiting.remove(job)
            _end(job, "abort")
        self._step()

    def _decoded_now(self) -> float:
        now = asyncio.get_running_loop().time()
        return self._decoded + (now - self._at) * self.speed if self.running else self._decoded

    def _advance(self) -> None:
        self._decoded, self._at = self._decoded_now(), asyncio.get_running_loop().time()

    def _step(self) -> None:
        """Finish what is due, fill the batch, set the timer for the next end."""
        self._advance()
        while self._ends and (self._ends[0][1] not in self.running or self._ends[0][0] <= self._decoded + 1e-6):
            job = self.running.pop(heapq.heappop(self._ends)[1], None)
            if job is not None:
                job.stopped_at = len(job.answer.ids)
                self.generated_tokens += job.stopped_at
                _end(job, "length" if job.answer.matched is None else "stop")
        while self.waiting and len(self.running) < self.max_running:
            job = self.waiting.popleft()
            job.started_at_tokens = self._decoded
            self.running[job.order] = job
            if not job.never_ends:
                heapq.heappush(self._ends, (self._decoded + len(job.answer.ids), job.order))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._ends:
            wait_s = max(0.0, (self._ends[0][0] - self._decoded) / self.speed)
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._step)
