"""What the container looks like now: frozen values, one for each part of the agent's snapshot.

No clock, no I/O, no behaviour beyond reading. `None` is unknown, never zero; an identity is
kept as the agent sent it, because it is only ever sent back. Times are seconds of the
container's clock; `console.view` relates them to ours. `console.read_snapshot` makes these values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

EMPTY: Mapping[str, Any] = MappingProxyType({})
"""A mapping without anything, shared by the defaults."""

IDLE_STATES = frozenset({"missing", "pretokenized", "no-prompts", "budget-met", "samples-met", "exhausted"})
"""States of a dataset for which inference has nothing to do."""

RUNNING_VERDICTS = frozenset({"starting", "running", "running-unsupervised"})
"""Verdicts under which our generator is alive."""


@dataclass(frozen=True)
class Problem:
    """One kind of problem in one file's records: how many, and where the first one is."""

    code: str
    count: int | None = None
    line: int | None = None
    offset: int | None = None
    example: str = ""


@dataclass(frozen=True)
class Schema:
    """Records of one dataset by class, each record in exactly one."""

    valid: int | None = None
    repairable: int | None = None
    unusable: int | None = None
    duplicates: int | None = None
    orphans: int | None = None
    torn: int | None = None
    problems: tuple[Problem, ...] = ()

    @property
    def usable(self) -> int | None:
        """Records that count as answers; None when either number is unknown."""
        return None if self.valid is None or self.repairable is None else self.valid + self.repairable


@dataclass(frozen=True)
class Decision:
    """What a restart would do with one dataset, and the reason's code."""

    decision: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Dataset:
    """One row of the table. `budget` is in completion tokens, 0 for none."""

    folder: str
    id: str
    title: str
    kind: str | None = None
    state: str | None = None
    order: int | None = None
    prompts: int | None = None
    responses: int | None = None
    tokenized: int | None = None
    tokens: int | None = None
    budget: int | None = None
    answered: int | None = None
    prompts_left: int | None = None
    no_eos: int | None = None
    trailing_assistant: int | None = None
    prompt_mismatches: int | None = None
    """Answers that the last tokenizing left out because their prompt is rendered differently now."""
    sampled: int | None = None
    no_think: int | None = None
    """Of the `sampled` latest answers, those without the model's end-of-thinking token; None where it has none."""
    finish_reasons: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    schema: Schema = Schema()
    inference: Decision = Decision()
    tokenization: Decision = Decision()
    in_work: bool = False
    in_flight: int | None = None
    rate_tokens_s: float | None = None
    last_answer_at: float | None = None
    files_changed_at: float | None = None
    growing: bool = False
    """Somebody appends to its responses right now."""

    @property
    def remaining_tokens(self) -> int | None:
        """Tokens missing to the budget; 0 when it is met, None when there is none or it is unknown."""
        if not self.budget or self.tokens is None:
            return None
        return max(0, self.budget - self.tokens)

    @property
    def mean_tokens(self) -> float | None:
        """Mean answer length of its own records; None below one answer."""
        return self.tokens / self.answered if self.tokens is not None and self.answered else None


@dataclass(frozen=True)
class Exit:
    """How the last run ended, as its supervisor wrote it: `reason` for programs, `detail` for people."""

    code: int | None = None
    signal: int | None = None
    at: float | None = None
    reason: str = ""
    detail: str = ""
    by: str = ""
    oom: bool | None = None


@dataclass(frozen=True)
class Generator:
    """The process that this console launches, or launched."""

    verdict: str = "unknown"
    detail: str = ""
    by: str = ""
    run_id: str | None = None
    pid: int | None = None
    supervisor_pid: int | None = None
    identity: Mapping[str, Any] | None = None
    argv: tuple[str, ...] = ()
    token_budget: str | None = None
    since: float | None = None
    release: str | None = None
    in_flight: int | None = None
    paused: bool | None = None
    draining: bool | None = None
    in_work: tuple[str, ...] = ()
    rate_tokens_s: float | None = None
    answers: int | None = None
    requests: int | None = None
    retries: int | None = None
    errors: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    engine_state: str | None = None
    progress_at: float | None = None
    exit: Exit | None = None

    @property
    def running(self) -> bool:
        """Whether our generator is alive as far as the container can tell."""
        return self.verdict in RUNNING_VERDICTS


@dataclass(frozen=True)
class Parent:
    """The process that may start a killed writer again."""

    pid: int | None = None
    argv: tuple[str, ...] = ()
    respawns: bool | None = None


@dataclass(frozen=True)
class Writer:
    """A process that writes the datasets and was not launched by this console."""

    pid: int
    identity: Mapping[str, Any] | None = None
    argv: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    script: str | None = None
    script_digest: str | None = None
    script_mtime: float | None = None
    knows_token_budget: bool | None = None
    token_budget: str | None = None
    max_samples: int | None = None
    since: float | None = None
    cwd: str | None = None
    parent: Parent | None = None
    needless_tokens: int | None = None
    needless_s: float | None = None
    needless_gpu_h: float | None = None
    needless_cost: float | None = None
    needless_by: Mapping[str, int] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True)
class Engine:
    """The engine as the container sees it. `health` is healthy, unhealthy, loading, down or unknown."""

    url: str | None = None
    health: str = "unknown"
    detail: str = ""
    model_path: str | None = None
    served_name: str | None = None
    version: str | None = None
    weight_version: str | None = None
    context_length: int | None = None
    running: int | None = None
    queued: int | None = None
    token_usage: float | None = None
    tokens_s: float | None = None
    since: float | None = None
    expected_model: bool | None = None
    """Whether it serves the model that the options name; None where that cannot be compared."""


@dataclass(frozen=True)
class Gpu:
    """One GPU's row of nvidia-smi; what it does not support is None."""

    index: int | None = None
    name: str = ""
    utilisation: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    temperature_c: float | None = None
    power_w: float | None = None


@dataclass(frozen=True)
class Gpus:
    """All GPUs, or none and the reason."""

    rows: tuple[Gpu, ...] = ()
    detail: str = ""


@dataclass(frozen=True)
class Disk:
    """The file system that holds the root."""

    free_bytes: int | None = None
    total_bytes: int | None = None
    free_inodes: int | None = None


@dataclass(frozen=True)
class Host:
    """The container itself."""

    hostname: str | None = None
    boot_id: str | None = None
    cpus: int | None = None
    memory_total_bytes: int | None = None
    memory_available_bytes: int | None = None


@dataclass(frozen=True)
class Agent:
    """The helper that made the snapshot."""

    release: str | None = None
    pid: int | None = None
    python: str | None = None


@dataclass(frozen=True)
class Lock:
    """The writers' lock of the root; `holder` names who has it."""

    held: bool | None = None
    holder: str = ""


@dataclass(frozen=True)
class Hold:
    """An operator's order that nothing be started."""

    by: str = ""
    reason: str = ""
    at: float | None = None
    until: float | None = None


@dataclass(frozen=True)
class Ack:
    """An alert that somebody has taken notice of."""

    key: str
    by: str = ""
    at: float | None = None
    note: str = ""


@dataclass(frozen=True)
class AuditEntry:
    """Who did what, when."""

    at: float | None = None
    who: str = ""
    action: str = ""
    outcome: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Log:
    """The end of the run's log."""

    size: int | None = None
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Snapshot:
    """Everything the agent sees at `at` (the container's clock). `datasets` are in the run's order.

    `problems` are the parts that the agent could not read, one line each; `misread` are the
    values of the snapshot that had a type they must not have, and are unknown therefore.
    """

    seq: int
    at: float
    root: str
    host: Host = Host()
    agent: Agent = Agent()
    datasets: tuple[Dataset, ...] = ()
    generator: Generator = Generator()
    writers: tuple[Writer, ...] = ()
    engine: Engine = Engine()
    gpus: Gpus = Gpus()
    disk: Disk = Disk()
    lock: Lock = Lock()
    hold: Hold | None = None
    acks: tuple[Ack, ...] = ()
    audit: tuple[AuditEntry, ...] = ()
    log: Log = Log()
    problems: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    """Parts at their first look: what is unknown because of them will be known soon."""
    misread: tuple[str, ...] = ()

    def dataset(self, name: str) -> Dataset | None:
        """The dataset of this folder or id."""
        return next((row for row in self.datasets if name in (row.folder, row.id)), None)

    @property
    def active(self) -> tuple[Dataset, ...]:
        """Datasets that are answered right now, by our generator or by somebody else."""
        return tuple(row for row in self.datasets if row.in_work)
