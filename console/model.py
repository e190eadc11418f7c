"""What the container looks like now: frozen values, one for each part of the agent's snapshot.

No clock, no I/O, no behaviour beyond reading. `None` is unknown, never zero; an identity is
kept as the agent sent it, because it is only ever sent back. Times are seconds of the
container's clock; `console.view` relates them to ours. A field's type says what the agent may send
for it (`console.shape`); `console.read_snapshot` makes these values, `console.status_json` tells them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from console.empty import EMPTY
from console.shape import (
    Count,
    Counts,
    Flag,
    Line,
    Lines,
    LongLine,
    LongLines,
    Name,
    Names,
    Number,
    Opaque,
    Who,
    Whole,
    Word,
)

IDLE_STATES = frozenset({"missing", "pretokenized", "no-prompts", "budget-met", "samples-met", "exhausted"})
"""States of a dataset for which inference has nothing to do."""

RUNNING_VERDICTS = frozenset({"starting", "running", "running-unsupervised"})
"""Verdicts under which our generator is alive."""


@dataclass(frozen=True)
class Problem:
    """One kind of problem in one file's records: how many, and where the first one is."""

    code: Word
    count: Count | None = None
    line: Count | None = None
    offset: Count | None = None
    example: Line = ""


@dataclass(frozen=True)
class Schema:
    """Records of one dataset by class, each record in exactly one."""

    valid: Count | None = None
    repairable: Count | None = None
    unusable: Count | None = None
    duplicates: Count | None = None
    orphans: Count | None = None
    torn: Count | None = None
    problems: tuple[Problem, ...] = ()

    @property
    def usable(self) -> int | None:
        """Records that count as answers; None when either number is unknown."""
        return None if self.valid is None or self.repairable is None else self.valid + self.repairable


@dataclass(frozen=True)
class Decision:
    """What a restart would do with one dataset, and the reason's code."""

    decision: Word | None = None
    reason: Word | None = None


@dataclass(frozen=True)
class Dataset:
    """One row of the table. `budget` is in completion tokens, 0 for none."""

    folder: Name
    id: Word = ""
    title: Word = ""
    kind: Word | None = None
    state: Word | None = None
    order: Count | None = None
    prompts: Count | None = None
    responses: Count | None = None
    tokenized: Count | None = None
    tokens: Count | None = None
    budget: Count | None = None
    answered: Count | None = None
    prompts_left: Count | None = None
    finish_reasons: Counts = field(default_factory=lambda: EMPTY)
    no_eos: Count | None = None
    trailing_assistant: Count | None = None
    prompt_mismatches: Count | None = None
    """Answers that the last tokenizing left out because their prompt is rendered differently now."""
    sampled: Count | None = None
    no_think: Count | None = None
    """Of the `sampled` latest answers, those without the model's end-of-thinking token; None where it has none."""
    schema: Schema = Schema()
    inference: Decision = Decision()
    tokenization: Decision = Decision()
    in_work: Flag = False
    in_flight: Count | None = None
    rate_tokens_s: Number | None = None
    last_answer_at: Number | None = None
    files_changed_at: Number | None = None
    growing: Flag = False
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

    code: Whole | None = None
    signal: Whole | None = None
    at: Number | None = None
    reason: Line = ""
    detail: Line = ""
    by: Name = ""
    oom: Flag | None = None


@dataclass(frozen=True)
class Generator:
    """The process that this console launches, or launched."""

    verdict: Word = "unknown"
    detail: Line = ""
    run_id: Word | None = None
    pid: Count | None = None
    supervisor_pid: Count | None = None
    identity: Opaque | None = None
    argv: Lines = ()
    token_budget: Line | None = None
    since: Number | None = None
    by: Name = ""
    release: Word | None = None
    in_flight: Count | None = None
    in_work: Names = ()
    paused: Flag | None = None
    draining: Flag | None = None
    rate_tokens_s: Number | None = None
    answers: Count | None = None
    requests: Count | None = None
    retries: Count | None = None
    errors: Counts = field(default_factory=lambda: EMPTY)
    engine_state: Word | None = None
    progress_at: Number | None = None
    exit: Exit | None = None

    @property
    def running(self) -> bool:
        """Whether our generator is alive as far as the container can tell."""
        return self.verdict in RUNNING_VERDICTS


@dataclass(frozen=True)
class Parent:
    """The process that may start a killed writer again."""

    pid: Count | None = None
    argv: Lines = ()
    respawns: Flag | None = None


@dataclass(frozen=True)
class Writer:
    """A process that writes the datasets and was not launched by this console."""

    pid: Count
    identity: Opaque | None = None
    argv: Lines = ()
    files: LongLines = ()
    datasets: Names = ()
    script: LongLine | None = None
    script_digest: Word | None = None
    script_mtime: Number | None = None
    knows_token_budget: Flag | None = None
    token_budget: Line | None = None
    max_samples: Count | None = None
    since: Number | None = None
    cwd: LongLine | None = None
    parent: Parent | None = None
    needless_tokens: Count | None = None
    needless_s: Number | None = None
    needless_gpu_h: Number | None = None
    needless_cost: Number | None = None
    needless_by: Counts = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True)
class Engine:
    """The engine as the container sees it. `health` is healthy, unhealthy, loading, down or unknown."""

    url: Line | None = None
    health: Word = "unknown"
    detail: Line = ""
    model_path: Line | None = None
    served_name: Line | None = None
    expected_model: Flag | None = None
    """Whether it serves the model that the options name; None where that cannot be compared."""
    version: Word | None = None
    weight_version: Name | None = None
    context_length: Count | None = None
    running: Count | None = None
    queued: Count | None = None
    token_usage: Number | None = None
    tokens_s: Number | None = None
    since: Number | None = None


@dataclass(frozen=True)
class Gpu:
    """One GPU's row of nvidia-smi; what it does not support is None."""

    index: Count | None = None
    name: Word = ""
    utilisation: Number | None = None
    memory_used_bytes: Count | None = None
    memory_total_bytes: Count | None = None
    temperature_c: Number | None = None
    power_w: Number | None = None


@dataclass(frozen=True)
class Gpus:
    """All GPUs, or none and the reason."""

    rows: tuple[Gpu, ...] = ()
    detail: Line = ""


@dataclass(frozen=True)
class Disk:
    """The file system that holds the root."""

    free_bytes: Count | None = None
    total_bytes: Count | None = None
    free_inodes: Count | None = None


@dataclass(frozen=True)
class Host:
    """The container itself."""

    hostname: Name | None = None
    boot_id: Word | None = None
    cpus: Count | None = None
    memory_total_bytes: Count | None = None
    memory_available_bytes: Count | None = None


@dataclass(frozen=True)
class Agent:
    """The helper that made the snapshot."""

    release: Word | None = None
    pid: Count | None = None
    python: Word | None = None


@dataclass(frozen=True)
class Lock:
    """The writers' lock of the root; `holder` names who has it."""

    held: Flag | None = None
    holder: Line = ""


@dataclass(frozen=True)
class Hold:
    """An operator's order that nothing be started."""

    by: Name = ""
    reason: Line = ""
    at: Number | None = None
    until: Number | None = None


@dataclass(frozen=True)
class Ack:
    """An alert that somebody has taken notice of."""

    key: Name
    by: Name = ""
    at: Number | None = None
    note: Line = ""


@dataclass(frozen=True)
class AuditEntry:
    """Who did what, when."""

    at: Number | None = None
    who: Who = ""
    action: Word = ""
    outcome: Name = ""
    detail: Line = ""


@dataclass(frozen=True)
class Log:
    """The end of the run's log."""

    size: Count | None = None
    lines: LongLines = ()


@dataclass(frozen=True)
class Snapshot:
    """Everything the agent sees at `at` (the container's clock). `datasets` are in the run's order.

    `problems` are the parts that the agent could not read, one line each; `misread` are the
    values of the snapshot that had a type they must not have, and are unknown therefore.
    """

    seq: Whole = 0
    at: Number = 0.0
    root: LongLine = ""
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
    problems: Lines = ()
    pending: Lines = ()
    """Parts at their first look: what is unknown because of them will be known soon."""
    misread: Lines = ()

    def dataset(self, name: str) -> Dataset | None:
        """The dataset of this folder or id."""
        return next((row for row in self.datasets if name in (row.folder, row.id)), None)

    @property
    def active(self) -> tuple[Dataset, ...]:
        """Datasets that are answered right now, by our generator or by somebody else."""
        return tuple(row for row in self.datasets if row.in_work)
