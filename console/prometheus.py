"""`status --prometheus`: one view as metrics in the text format, for a textfile collector.

The format is Prometheus' text exposition format 0.0.4: `# HELP`, `# TYPE`, then samples; label
values escape backslash, quote and newline. What is unknown has no sample, because a missing
sample is not a zero. Every sample names its target, so that the files of several targets can lie
side by side in one collector's folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from console.model import Dataset, Engine, Gpu, Snapshot
from console.view import Level, View

PREFIX = "eagle3_"
_RECORD_CLASSES = ("valid", "repairable", "unusable", "duplicates", "orphans", "torn")
_UP = "1 when the container was seen live at this look, 0 when it was not."


@dataclass
class Family:
    """One metric: its samples by their labels. A value that is unknown is left out when it is added."""

    name: str
    help: str
    kind: str = "gauge"
    samples: list[tuple[Mapping[str, str], float]] = field(default_factory=list)

    def add(self, value: float | None, **labels: str) -> Family:
        """Add a sample, unless its value is unknown; returns itself."""
        if value is not None:
            self.samples.append((labels, float(value)))
        return self

    def lines(self, target: str) -> Iterator[str]:
        """The text of it; none without samples."""
        if not self.samples:
            return
        yield f"# HELP {PREFIX}{self.name} {self.help}\n"
        yield f"# TYPE {PREFIX}{self.name} {self.kind}\n"
        for labels, value in self.samples:
            words = ",".join(f'{key}="{_escaped(word)}"' for key, word in {"target": target, **labels}.items())
            yield f"{PREFIX}{self.name}{{{words}}} {_number(value)}\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    """Every digit: seven figures of tokens would not survive `%g`."""
    return str(int(value)) if value.is_integer() and abs(value) < 2**63 else repr(value)


def metrics(view: View) -> str:
    """All metrics of one view, each line ended by a newline."""
    return "".join(line for family in _families(view) for line in family.lines(view.link.target))


def down(target: str) -> str:
    """What is said of a container that could not be reached: the look itself is a fact."""
    return "".join(Family("up", _UP).add(0.0).lines(target))


def _families(view: View) -> Iterator[Family]:
    yield Family("up", _UP).add(view.link.fresh)
    yield from _alerts(view)
    snapshot = view.snapshot
    if snapshot is None:
        return
    yield Family("snapshot_time_seconds", "The container's clock at this look.").add(snapshot.at)
    yield from _datasets(view, snapshot.datasets)
    yield from _processes(snapshot)
    yield from _engine(snapshot.engine)
    yield from _gpus(snapshot.gpus.rows)
    yield Family("disk_free_bytes", "Free bytes of the root's file system.").add(snapshot.disk.free_bytes)


def _alerts(view: View) -> Iterator[Family]:
    open_ones = [alert for alert in view.alerts if not alert.acked_by]
    counts = Family("alerts", "Open alerts that nobody has acknowledged, by level.")
    for level in Level:
        counts.add(sum(1 for alert in open_ones if alert.level is level), level=level.value)
    yield counts
    each = Family("alert", "1 for each alert that nobody has acknowledged.")
    for alert in open_ones:
        each.add(1, key=alert.key, code=alert.code, level=alert.level.value, dataset=alert.dataset or "")
    yield each


def _processes(snapshot: Snapshot) -> Iterator[Family]:
    generator = snapshot.generator
    yield Family("generator_running", "1 while our generator runs.").add(generator.running)
    yield Family("generator_in_flight", "Requests in flight.").add(generator.in_flight)
    yield Family("generator_retries_total", "Retries of this run.", "counter").add(generator.retries)
    yield Family("foreign_writers", "Processes that write and were not launched by us.").add(len(snapshot.writers))
    needless = [writer.needless_tokens for writer in snapshot.writers if writer.needless_tokens is not None]
    yield Family("needless_tokens", "Tokens that foreign writers would still write past the budget.").add(
        sum(needless) if needless else None
    )


def _engine(engine: Engine) -> Iterator[Family]:
    healthy = None if engine.health == "unknown" else engine.health == "healthy"
    yield Family("engine_healthy", "1 when the engine is healthy.").add(healthy)
    yield Family("engine_running_requests", "Requests the engine decodes.").add(engine.running)
    yield Family("engine_queued_requests", "Requests the engine has queued.").add(engine.queued)
    yield Family("engine_tokens_per_second", "The engine's own throughput.").add(engine.tokens_s)


def _gpus(rows: tuple[Gpu, ...]) -> Iterator[Family]:
    for name, help_text, attribute in (
        ("gpu_utilisation_percent", "Utilisation of a GPU.", "utilisation"),
        ("gpu_memory_used_bytes", "Memory in use on a GPU.", "memory_used_bytes"),
        ("gpu_temperature_celsius", "Temperature of a GPU.", "temperature_c"),
        ("gpu_power_watts", "Power draw of a GPU.", "power_w"),
    ):
        family = Family(name, help_text)
        for gpu in rows:
            family.add(getattr(gpu, attribute), gpu=str(gpu.index))
        yield family


def _datasets(view: View, rows: tuple[Dataset, ...]) -> Iterator[Family]:
    for name, help_text, attribute in (
        ("prompts", "Usable prompts.", "prompts"),
        ("responses", "Lines of raw_responses.jsonl.", "responses"),
        ("tokenized_rows", "Rows of tokenized_data.jsonl.", "tokenized"),
        ("completion_tokens", "Completion tokens of usable answers.", "tokens"),
        ("token_budget", "The token budget; 0 is none.", "budget"),
    ):
        family = Family(f"dataset_{name}", help_text)
        for row in rows:
            family.add(getattr(row, attribute), dataset=row.id, folder=row.folder)
        yield family
    records = Family("dataset_records", "Records of raw_responses.jsonl by class.")
    rates = Family("dataset_tokens_per_second", "Measured rate.")
    etas = Family("dataset_eta_seconds", "Seconds until it has what it will get, waiting included.")
    states = Family("dataset_state", "1 for the state a dataset is in.")
    for row in rows:
        for kind in _RECORD_CLASSES:
            records.add(getattr(row.schema, kind), dataset=row.id, folder=row.folder, **{"class": kind})
        rates.add(view.rate_of(row), dataset=row.id, folder=row.folder)
        etas.add(view.eta_s.get(row.folder), dataset=row.id, folder=row.folder)
        states.add(None if row.state is None else 1, dataset=row.id, folder=row.folder, state=row.state or "")
    yield from (records, rates, etas, states)
