"""Everything a run needs before it can say ready: model, tokenizer, sampling, what is on disk, and the plan made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from remote import preflight_host
from remote.admission import Track
from remote.audit import read_hold
from remote.check import BLOCKER, Check, apply_accept
from remote.engine import import_httpx
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.layout import PROMPTS, Layout
from remote.lengths import Lengths
from remote.model import ModelFacts, Sampling, read_model, sampling_of
from remote.options import Options
from remote.plan import DatasetPlan, Plan
from remote.planning import make_plan
from remote.preflight_look import Look
from remote.records import Rules
from remote.render import Tokenizer, load_tokenizer
from remote.run_settings import RunSettings
from remote.sampling import explicit_sampling
from remote.scan import DatasetScan, RootScan, Scanner
from remote.sources import PromptSource
from remote.surroundings import look_around
from remote.tombstones import Tombstones

_BY_HAND: tuple[Callable[[Look], Check], ...] = (
    preflight_host.disk,
    preflight_host.root,
    preflight_host.writers,
    preflight_host.growth,
    preflight_host.hold,
)
"""The checks of a preflight that a run started by hand asks for itself."""


@dataclass(frozen=True)
class Prepared:
    """The run, decided: `plan` in the order of the run; `sent` is what every request carries."""

    options: Options
    model: ModelFacts
    tokenizer: Tokenizer | None
    sampling: Sampling
    sent: Mapping[str, Any]
    scans: Mapping[str, DatasetScan]
    plan: Plan

    @property
    def working(self) -> list[DatasetPlan]:
        """The datasets that answers are generated for, B1 to B8; those with a met budget stand by, for it may be raised
        while the run lasts."""
        return [plan for plan in self.plan.datasets if plan.works or (plan.reason == "budget-met" and _room(plan))]


def prepare(layout: Layout, settings: RunSettings) -> Prepared:
    """Read what is there and decide. Changes nothing. Raises OperatorError with what has to be done first.

    The tokenizer is loaded only where something is to be generated.
    """
    options = settings.options
    if options.read_only:
        raise OperatorError("read-only", "generate changes files, and --read-only is on", "leave --read-only out")
    import_httpx()
    model = read_model(options.model_path)
    sampling = sampling_of(model, options)
    sent = explicit_sampling(sampling, model)
    scan = scan_now(layout, model)
    around = look_around(layout, options)
    plan, states = make_plan(layout, scan, options, around)
    if not settings.launched:
        hold = read_hold(layout, around.at)
        _refuse_unfit(Look(layout, options, around, states, plan, hold=hold, launching=True))
    working = any(dataset.works for dataset in plan.datasets)
    tokenizer = load_tokenizer(options) if working else None
    return Prepared(options, model, tokenizer, sampling, sent, {item.folder: item for item in scan.datasets}, plan)


def scan_now(layout: Layout, model: ModelFacts) -> RootScan:
    """What is on disk at this moment, with the scanner's memory where there is one. Raises OperatorError."""
    rules = Rules(model.vocab_size, model.eos_ids)
    scanner = Scanner(layout.root, rules, layout.index_json if layout.state.is_dir() else None)
    return scanner.poll()


def _refuse_unfit(look: Look) -> None:
    """What a launch has asked before, asked here of a run by hand. Raises OperatorError for the first blocker."""
    for check in _BY_HAND:
        found = apply_accept(check(look), look.options)
        if found.level == BLOCKER:
            code = ExitCode.DISK if found.check == "disk" else ExitCode.FAILED
            raise OperatorError(found.check, found.detail, found.remedy, code)


def _room(plan: DatasetPlan) -> int:
    """How many prompts may still be answered, whatever the budget says."""
    return plan.prompts_left if plan.cap is None else max(0, min(plan.prompts_left, plan.cap - plan.answered))


def make_track(prepared: Prepared, plan: DatasetPlan) -> Track:
    """A dataset as admission begins with it, with the lengths of its own records."""
    lengths = Lengths(prepared.options.max_new_tokens, prepared.scans[plan.folder].answer_lengths())
    return Track(plan.folder, plan.budget, plan.existing_tokens, _room(plan), lengths)


def make_source(layout: Layout, prepared: Prepared, folder: str, tombstones: Tombstones) -> PromptSource:
    """The prompts of a dataset that are still to be asked. Raises OperatorError when the file cannot be read."""
    options = prepared.options
    aside: frozenset[str] = frozenset() if options.retry_failed else frozenset(tombstones.of(folder))
    answered = prepared.scans[folder].answered_ids()
    return PromptSource(layout.folder(folder) / PROMPTS, answered, aside, options.shuffle)
