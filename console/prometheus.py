"""`status --prometheus`: one view as metrics in the text format, for a textfile collector.

The format is Prometheus' text exposition format 0.0.4: `# HELP`, `# TYPE`, then samples; label
values escape backslash, quote and newline. What is unknown has no sample, because a missing
sample is not a zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from console.model import Dataset
from console.view import Level, View

PREFIX = "eagle3_"


@dataclass(frozen=True)
class Sample:
    """One value with its labels."""

    value: float
    labels: tuple[tuple[str, str], ...] = ()


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _family(name: str, kind: str, help_text: str, samples: Iterable[Sample]) -> Iterator[str]:
    kept = list(samples)
    if not kept:
        return
    yield f"# HELP {PREFIX}{name} {help_text}"
    yield f"# TYPE {PREFIX}{name} {kind}"
    for sample in kept:
        labels = ",".join(f'{key}="{_escape(value)}"' for key, value in sample.labels)
        yield f"{PREFIX}{name}{{{labels}}} {sample.value:g}" if labels else f"{PREFIX}{name} {sample.value:g}"


def _one(value: float | bool | None) -> list[Sample]:
    return [] if value is None else [Sample(float(value))]


def metrics(view: View) -> str:
    """All metrics of one view, each line ended by a newline."""
    return "".join(f"{line}\n" for line in _lines(view))


def _lines(view: View) -> Iterator[str]:
    snapshot = view.snapshot
    yield from _family("up", "gauge", "1 when the container was seen live.", [Sample(float(view.link.fresh))])
    for level in Level:
        count = sum(1 for alert in view.alerts if alert.level is level and not alert.acked_by)
        sample = Sample(count, (("level", level.value),))
        if level is Level.NOTE:
            yield f"# HELP {PREFIX}alerts Open alerts that nobody has acknowledged, by level."
            yield f"# TYPE {PREFIX}alerts gauge"
        yield f'{PREFIX}alerts{{level="{level.value}"}} {sample.value:g}'
    if snapshot is None:
        return
    yield from _family("snapshot_time_seconds", "gauge", "The container's clock at this look.", [Sample(snapshot.at)])
    yield from _datasets(view, snapshot.datasets)
    generator, engine = snapshot.generator, snapshot.engine
    yield from _family("generator_running", "gauge", "1 while our generator runs.", [Sample(float(generator.running))])
    yield from _family("generator_in_flight", "gauge", "Requests in flight.", _one(generator.in_flight))
    yield from _family("generator_retries_total", "counter", "Retries of this run.", _one(generator.retries))
    yield from _family(
        "foreign_writers", "gauge", "Processes that write and were not launched by us.", [Sample(len(snapshot.writers))]
    )
    needless = [writer.needless_tokens for writer in snapshot.writers if writer.needless_tokens is not None]
    yield from _family(
        "needless_tokens",
        "gauge",
        "Tokens that foreign writers would still write past the budget.",
        [Sample(sum(needless))] if needless else [],
    )
    yield from _family(
        "engine_healthy",
        "gauge",
        "1 when the engine is healthy.",
        _one(None if engine.health == "unknown" else engine.health == "healthy"),
    )
    yield from _family("engine_running_requests", "gauge", "Requests the engine decodes.", _one(engine.running))
    yield from _family("engine_queued_requests", "gauge", "Requests the engine has queued.", _one(engine.queued))
    yield from _family("engine_tokens_per_second", "gauge", "The engine's own throughput.", _one(engine.tokens_s))
    for name, help_text, attribute in (
        ("gpu_utilisation_percent", "Utilisation of a GPU.", "utilisation"),
        ("gpu_memory_used_bytes", "Memory in use on a GPU.", "memory_used_bytes"),
        ("gpu_temperature_celsius", "Temperature of a GPU.", "temperature_c"),
        ("gpu_power_watts", "Power draw of a GPU.", "power_w"),
    ):
        yield from _family(
            name,
            "gauge",
            help_text,
            [
                Sample(float(getattr(gpu, attribute)), (("gpu", str(gpu.index)),))
                for gpu in snapshot.gpus.rows
                if getattr(gpu, attribute) is not None
            ],
        )
    yield from _family(
        "disk_free_bytes", "gauge", "Free bytes of the root's file system.", _one(snapshot.disk.free_bytes)
    )


def _datasets(view: View, rows: tuple[Dataset, ...]) -> Iterator[str]:
    for name, help_text, attribute in (
        ("prompts", "Usable prompts.", "prompts"),
        ("responses", "Lines of raw_responses.jsonl.", "responses"),
        ("tokenized_rows", "Rows of tokenized_data.jsonl.", "tokenized"),
        ("completion_tokens", "Completion tokens of usable answers.", "tokens"),
        ("token_budget", "The token budget; 0 is none.", "budget"),
    ):
        yield from _family(
            f"dataset_{name}",
            "gauge",
            help_text,
            [
                Sample(float(getattr(row, attribute)), (("dataset", row.id), ("folder", row.folder)))
                for row in rows
                if getattr(row, attribute) is not None
            ],
        )
    yield from _family(
        "dataset_records",
        "gauge",
        "Records of raw_responses.jsonl by class.",
        [
            Sample(float(count), (("dataset", row.id), ("class", kind)))
            for row in rows
            for kind in ("valid", "repairable", "unusable", "duplicates", "orphans", "torn")
            if (count := getattr(row.schema, kind)) is not None
        ],
    )
    yield from _family(
        "dataset_tokens_per_second",
        "gauge",
        "Measured rate.",
        [Sample(rate, (("dataset", row.id),)) for row in rows if (rate := view.rate_of(row)) is not None],
    )
    yield from _family(
        "dataset_state",
        "gauge",
        "1 for the state a dataset is in.",
        [Sample(1, (("dataset", row.id), ("state", row.state))) for row in rows if row.state is not None],
    )
