"""All the looks at one root, each in its own thread, and the snapshot that is made of what they found."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from remote import audit, figures
from remote.api_key import read_api_key
from remote.engine_watch import EngineWatch
from remote.errors import OperatorError
from remote.facts import DatasetState, Surroundings
from remote.host import disk, gpus, machine
from remote.index_place import index_place
from remote.layout import PROMPTS, RESPONSES, TOKENIZED, Layout
from remote.logtail import tail
from remote.model import read_model
from remote.options import Options, parse_budget
from remote.plan import Plan
from remote.planning import make_plan
from remote.probe import same_model
from remote.records import Rules
from remote.scan import RootScan, Scanner
from remote.snapshot import AUDIT_ENTRIES, compose
from remote.snapshot_parts import Parts
from remote.status import GeneratorStatus, generator_status
from remote.surroundings import look_around
from remote.thinking import Thinking
from remote.watch import Watch
from remote.writers import Writer, find_writers

SAVE_EVERY_S = 60.0
VERIFY_BYTES = 1 << 20
"""Old bytes that are checked again after each poll: a full tree in about a quarter of an hour, at 1 % of a core."""

LOG_BYTES = 8 << 10
FIRST_LOOK_S = 4.0
"""A first scan that takes longer says how far it is."""


class Rounds:
    """Every watch on one root under one set of options. `start`, then `snapshot` at any time, then `close`."""

    def __init__(
        self, options: Options, agent: Mapping[str, Any], api_key: Callable[[], str | None], on_news: Callable[[], None]
    ) -> None:
        self.options = options
        self.layout = Layout(Path(options.root))
        self._agent = agent
        self._api_key = api_key
        self._saved_s = self._began_s = time.monotonic()
        self._to_read_bytes = 0
        self._scanner: Scanner | None = None
        self._sampler: Thinking | None = None
        self._scan = Watch("datasets", self._look_at_data, 0.7, 30.0, on_news)
        self._status = Watch("generator", lambda: generator_status(self.layout), 1.0, 10.0, on_news)
        self._writers = Watch("writers", self._look_for_writers, 3.0, 20.0, on_news)
        self._plan = Watch("plan", self._look_ahead, 2.0, 20.0, on_news)
        self._hold = Watch(
            "hold", lambda: (audit.read_hold(self.layout), audit.read_acks(self.layout)), 2.0, 5.0, on_news
        )
        self._audit = Watch("audit", lambda: audit.read(self.layout, AUDIT_ENTRIES), 2.0, 5.0, on_news)
        self._thinking = Watch("thinking", self._look_at_thinking, 60.0, 60.0, on_news)
        self._log = Watch("log", lambda: tail(self.layout.run_log, LOG_BYTES), 1.0, 10.0, on_news)
        self._gpus = Watch("gpus", gpus, 5.0, 20.0, on_news)
        self._host = Watch("host", lambda: (machine(), disk(self.layout.root)), 10.0, 10.0, on_news)
        self.engine = EngineWatch(options.engine_url, self._key, on_news)
        self._watches: tuple[Watch[Any], ...] = (
            self._scan, self._status, self._writers, self._plan, self._hold, self._audit, self._thinking, self._log, self._gpus, self._host,
            *self.engine.watches,
        )  # fmt: skip

    def start(self) -> None:
        """Take every first look at once."""
        for watch in self._watches:
            watch.start()

    def close(self, patience_s: float = 1.5) -> None:
        """Look no more, and keep the scanner's memory for the next agent if its thread ends in time."""
        for watch in self._watches:
            watch.stop()
        if self._scan.wait_ended(patience_s) and self._scanner is not None:
            self._save(self._scanner)

    def presentable(self) -> bool:
        """Whether every part has been looked at once, except the engine and the GPUs: /health alone takes a second."""
        slow = (self._gpus, *self.engine.watches)
        return not any(watch.at is None for watch in self._watches if watch not in slow and watch is not self._thinking)

    def nudge(self) -> None:
        """Something was done: look at processes, plan and papers now."""
        for watch in (self._status, self._writers, self._hold, self._audit, self._plan):
            watch.nudge()

    # -- what others ask ------------------------------------------------------

    def scan(self, timeout_s: float = 60.0) -> RootScan:
        """The present scan; waits for the first one. Raises OperatorError: no root, or not read in time."""
        deadline_s = time.monotonic() + timeout_s
        while self._scan.at is None and time.monotonic() < deadline_s:
            time.sleep(0.05)
        found = self._scan.value
        if found is None:
            if self._scan.error is not None:
                raise self._scan.error
            raise OperatorError("no-scan", self._scan.problem() or "the datasets are still being read", "try again")
        return found

    def status(self) -> GeneratorStatus:
        """A fresh look at the generator."""
        return generator_status(self.layout)

    def surroundings(self, options: Options, writers: Sequence[Writer] | None = None) -> Surroundings:
        """What a plan knows besides the data, with what the watches know already."""
        return look_around(
            self.layout,
            options,
            status=self._status.value or self.status(),
            # Only what is known already: a look that hangs must not take the plan with it.
            writers=writers if writers is not None else self._writers.value or (),
            # nvidia-smi is asked by its own watch alone: two at once would give neither an answer.
            gpus=len((self._gpus.value or {}).get("rows") or ()),
            engine=self.engine.facts(),
        )

    def plan(
        self, options: Options, writers: Sequence[Writer] | None = None
    ) -> tuple[Plan, list[DatasetState], Surroundings]:
        """The plan for these options, from the scanner's memory. Raises OperatorError."""
        around = self.surroundings(options, writers)
        plan, states = make_plan(self.layout, self.scan(), options, around)
        return plan, states, around

    # -- the looks ------------------------------------------------------------

    def _look_at_data(self) -> RootScan:
        if self._scanner is None:
            self._scanner = Scanner(self.layout.root, self._rules(), index_place(self.layout, self.options.read_only))
            self._to_read_bytes = _data_bytes(self.layout)
        before, found = self._scan.value, self._scanner.poll()
        if before is not None and _versions(before) != _versions(found):
            self._plan.nudge()
        self._scanner.background(VERIFY_BYTES)
        if time.monotonic() - self._saved_s > SAVE_EVERY_S:
            self._save(self._scanner)
        return found

    def _look_for_writers(self) -> list[Writer]:
        before, found = self._writers.value, find_writers(self.layout)
        if before is None or [one.identity for one in before] != [one.identity for one in found]:
            self._plan.nudge()
        return found

    def _rules(self) -> Rules:
        try:
            model = read_model(self.options.model_path)
        except OperatorError:
            # The plan and the preflight say what is wrong with the folder; records are judged by the widest rules.
            return Rules()
        return Rules(model.vocab_size, model.eos_ids)

    def _look_at_thinking(self) -> dict[str, tuple[int, int]]:
        if self._sampler is None:
            self._sampler = Thinking(self.layout, self.options, self._rules())
        return self._sampler.look() if self.layout.root.is_dir() else {}

    def _save(self, scanner: Scanner) -> None:
        # It is a convenience: without it the next agent reads the files again, and a full disk is not asked every minute.
        self._saved_s = time.monotonic() + (0 if scanner.save() else 600)

    def _look_ahead(self) -> Plan:
        plan, _, _ = self.plan(self.options)
        return plan

    def _key(self) -> str | None:
        known = self._api_key()
        if known is not None or self.options.api_key_file is None:
            return known
        try:
            return read_api_key(self.options.api_key_file)
        except OperatorError:
            return None  # the preflight says what is wrong with the file

    # -- the snapshot ---------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """What is known now. Never raises for a part that is not."""
        machine_facts, disk_facts = self._host.value or (None, None)
        hold, acks = self._hold.value or (None, {})
        problems = [problem for watch in self._watches if (problem := watch.problem())]
        problems += self._reading()
        return compose(
            Parts(
                root=str(self.layout.root),
                options=self._live_options(),
                agent=self._agent,
                scan=self._scan.value,
                plan=self._plan.value,
                generator=self._status.value,
                writers=[writer.to_json() for writer in self._writers.value or ()],
                engine={**self.engine.to_json(), "expected_model": self._expected_model()},
                gpus=self._gpus.value,
                host=machine_facts,
                disk=disk_facts,
                hold=hold,
                acks=acks,
                audit=self._audit.value or (),
                log=self._log.value,
                thinking=self._thinking.value or {},
                problems=problems,
                pending=self._pending(),
            )
        )

    def _reading(self) -> list[str]:
        """How far the first look at the files is, while it takes longer than a moment."""
        scanner, to_read = self._scanner, self._to_read_bytes
        if (
            self._scan.at is not None
            or scanner is None
            or not to_read
            or time.monotonic() - self._began_s < FIRST_LOOK_S
        ):
            return []
        share = min(95, 100 * scanner.bytes_read // to_read // 5 * 5)
        return [f"datasets: reading every record for the first time, {share} % of {figures.size(to_read)}"]

    def _pending(self) -> list[str]:
        """Parts at their first look. The sample of answers is none that anybody waits for."""
        return [watch.name for watch in self._watches if watch.at is None and watch is not self._thinking]

    def _live_options(self) -> Options:
        """The options with the budget in force: a running generator goes by its own, whatever this console would ask."""
        status = self._status.value
        if status is None or not status.living or status.token_budget is None:
            return self.options
        cap = status.run.options.max_samples if status.run is not None else self.options.max_samples
        try:
            return replace(self.options, token_budget=parse_budget(status.token_budget), max_samples=cap)
        except OperatorError:
            return self.options

    def _expected_model(self) -> bool | None:
        """Whether the engine serves `--model-path`; None where either is unknown."""
        served = self.engine.facts().model_path
        status = self._status.value
        wanted = self.options.model_path
        if status is not None and status.living and status.run is not None:
            wanted = status.run.options.model_path or wanted
        return same_model(served, wanted)


def _versions(scan: RootScan) -> list[tuple[str, int]]:
    """What changes whenever anything about a dataset does."""
    return [(dataset.folder, dataset.version) for dataset in scan.datasets]


def _data_bytes(layout: Layout) -> int:
    """The size of all datasets' files; what cannot be looked at is for the scan to say."""
    total = 0
    for name in (PROMPTS, RESPONSES, TOKENIZED):
        for path in layout.root.glob(f"*/{name}"):
            with contextlib.suppress(OSError):
                total += path.stat().st_size
    return total
