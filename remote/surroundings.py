"""Find out what a plan knows besides the data: processes, speed, GPUs, tokenizer, model, engine.

The agent knows most of it already and passes it; `plan` on the command line asks here.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Sequence
from pathlib import Path

from remote.appended import read_backwards
from remote.errors import OperatorError
from remote.facts import Process, Rate, Surroundings
from remote.fingerprint import cheap_fingerprint
from remote.gpus import gpus as ask_gpus
from remote.layout import Layout
from remote.model import ModelFacts, read_model, sampling_of
from remote.options import Options, parse_budget
from remote.probe import EngineFacts
from remote.release import release
from remote.runfile import number
from remote.status import GeneratorStatus, generator_status
from remote.text import clean
from remote.writers import Writer, find_writers

_MODEL_FILES = ("config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json")
"""What `read_model` reads; the last of them can have tens of megabytes."""

RATE_MINUTES = 60
"""How much of the history tells a speed when nothing runs: its last lines, one a minute."""


def look_around(
    layout: Layout,
    options: Options,
    *,
    at: float | None = None,
    status: GeneratorStatus | None = None,
    writers: Sequence[Writer] | None = None,
    rate_tokens_s: float | None = None,
    gpus: int | None = None,
    engine: EngineFacts | None = None,
) -> Surroundings:
    """Everything that was not passed is looked up; the engine is not probed here, for that takes seconds.

    `rate_tokens_s` is a speed that the caller has measured; `gpus` of 0 says that the caller has looked and knows of none. Never raises: what cannot be found out
    is None, with a line in `problems`.
    """
    problems: list[str] = []
    at = time.time() if at is None else at
    status = generator_status(layout) if status is None else status
    writers = find_writers(layout) if writers is None else writers
    processes = [process_of_writer(writer) for writer in writers]
    ours = process_of_generator(status)
    if ours is not None:
        processes.insert(0, ours)
    fingerprint = model = None
    try:
        model = _model(options.model_path)
        fingerprint = cheap_fingerprint(options)
    except OperatorError as error:
        problems.append(str(error))
    return Surroundings(
        at=at,
        processes=tuple(processes),
        rate=_rate(layout, status, rate_tokens_s, engine),
        gpus=_gpus(problems) if gpus is None else gpus or None,
        release=release(),
        fingerprint=fingerprint,
        model=model,
        sampling=sampling_of(model, options) if model is not None else None,
        engine=engine,
        problems=tuple(problems),
    )


def _model(model_path: str | None) -> ModelFacts:
    """The model's facts, read again only when one of its files changed: the agent asks every other second."""
    if not model_path:
        return read_model(None)
    return _model_of(model_path, tuple(_stamp(Path(model_path) / name) for name in _MODEL_FILES))


@functools.lru_cache(maxsize=4)
def _model_of(model_path: str, stamps: tuple[tuple[int, int] | None, ...]) -> ModelFacts:
    """`stamps` only make the memory's key; an error is not remembered."""
    return read_model(model_path)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _gpus(problems: list[str]) -> int | None:
    found = ask_gpus()
    rows = found.get("rows") or []
    if not rows:
        problems.append(f"GPU-hours unknown: {clean(found.get('detail') or 'no GPU is reported')}")
    return len(rows) or None


def _rate(layout: Layout, status: GeneratorStatus, measured: float | None, engine: EngineFacts | None) -> Rate | None:
    """The best speed there is: measured by the caller, by the generator, by its history, by the engine."""
    if measured:
        return Rate(measured, "measured now")
    said = number(status.progress.get("rate_tokens_s")) if status.living else None
    if said:
        return Rate(said, "measured by the generator")
    past = _past_rate(layout)
    if past:
        return Rate(past, "measured in its last hour")
    if engine is not None and engine.tokens_s:
        return Rate(engine.tokens_s, "the engine's own figure")
    return None


def _past_rate(layout: Layout) -> float | None:
    """Mean over the last recorded hour's minutes in which anything was generated."""
    try:
        rows = list(itertools.islice(read_backwards(layout.history_jsonl), RATE_MINUTES))
    except OSError:
        return None
    rates = [found for row in rows if (found := number(row.get("rate_tokens_s")))]
    return sum(rates) / len(rates) if rates else None


def process_of_generator(status: GeneratorStatus) -> Process | None:
    """Our own generator as a process that a plan speaks of; None when none lives."""
    if not status.living or status.pid is None:
        return None
    options = status.run.options if status.run is not None else None
    # The budget in force: one that was changed while it runs is not that of its options.
    budget = parse_budget(status.token_budget) if status.token_budget is not None else None
    in_work = status.progress.get("in_work")
    return Process(
        pid=status.pid,
        ours=True,
        since=status.since,
        argv=status.argv,
        max_samples=options.max_samples if options is not None else None,
        budget=budget,
        selected=options.datasets if options is not None else None,
        flags_known=budget is not None,
        knows_token_budget=True,
        datasets=tuple(str(name) for name in in_work) if isinstance(in_work, list) else (),
        identity=status.identity.to_json() if status.identity is not None else None,
        settings=options.to_json() if options is not None else None,
        release=status.release,
    )


def process_of_writer(writer: Writer) -> Process:
    """A process that was not launched by us, as a plan speaks of it."""
    script, flags, parent = writer.script, writer.flags, writer.parent
    return Process(
        pid=writer.pid,
        since=writer.since,
        argv=writer.argv,
        max_samples=flags.max_samples,
        budget=flags.token_budget,
        selected=flags.datasets,
        flags_known=flags.known,
        knows_token_budget=writer.knows_token_budget,
        datasets=writer.datasets,
        script=script.path if script is not None else None,
        script_digest=script.digest if script is not None else None,
        script_mtime=script.mtime if script is not None else None,
        identity=writer.identity.to_json(),
        respawns=parent.respawns if parent is not None else False,
        parent_pid=parent.pid if parent is not None else None,
    )
