"""`plan`: say what a restart would do to each dataset, and why. Changes nothing."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from remote.api_key import read_api_key
from remote.check import BLOCKER, OK
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.handshake import API_KEY
from remote.layout import Layout
from remote.model import ModelFacts, read_model
from remote.options import Options
from remote.plan import Plan, with_preflight
from remote.planning import make_plan
from remote.preflight import ask_python, run_preflight
from remote.probe import probe_engine
from remote.records import Rules
from remote.scan import Scanner
from remote.surroundings import look_around
from remote.text import clean

LOOK_AGAIN_S = 1.0
"""The least time between the two looks that tell whether a file grows."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument("--json", action="store_true", help="the whole plan as one JSON object")
    parser.add_argument("--quick", action="store_true", help="leave the preflight out: no engine, no tokenizer")


def run(options: Options, args: argparse.Namespace) -> ExitCode:
    """Print the plan. Raises OperatorError when there is no such root."""
    plan = plan_of(options, os.environ, quick=args.quick)
    if args.json:
        print(json.dumps(plan.to_json(), ensure_ascii=False))
    else:
        for line in text_lines(plan):
            print(line)
    return ExitCode.DONE


def plan_of(options: Options, environment: Mapping[str, str], quick: bool = False) -> Plan:
    """Scan and plan, and check what a run needs unless `quick`. Raises OperatorError (`no-root`)."""
    layout = Layout(Path(options.root))
    scanner = _scanner(layout, _model(options))
    scan, looked_at = scanner.poll(), time.monotonic()
    if quick:
        return make_plan(layout, scan, options, look_around(layout, options))[0]
    key = _api_key(options, environment)
    with ThreadPoolExecutor(2, thread_name_prefix="preflight") as pool:
        asked = pool.submit(probe_engine, options.engine_url, key)
        loading = pool.submit(ask_python, options)
        engine, python = asked.result(), loading.result()
    # What has grown between two looks is written by somebody, whether or not they can be seen.
    time.sleep(max(0.0, looked_at + LOOK_AGAIN_S - time.monotonic()))
    scan = scanner.poll()
    around = look_around(layout, options, engine=engine)
    plan, states = make_plan(layout, scan, options, around)
    checks = run_preflight(layout, options, states, plan, around, python=python, api_key_known=key is not None)
    return with_preflight(plan, checks)


def _model(options: Options) -> ModelFacts:
    """The model's facts, or the defaults where the folder cannot be used: the preflight says that it cannot."""
    try:
        return read_model(options.model_path)
    except OperatorError:
        return ModelFacts()


def _api_key(options: Options, environment: Mapping[str, str]) -> str | None:
    if environment.get(API_KEY):
        return environment[API_KEY]
    return read_api_key(options.api_key_file) if options.api_key_file is not None else None


def _scanner(layout: Layout, model: ModelFacts) -> Scanner:
    """With the memory of earlier scans where there is one; nothing is saved, for a plan changes nothing."""
    index = layout.index_json if layout.index_json.is_file() else None
    return Scanner(layout.root, Rules(model.vocab_size, model.eos_ids), index)


def text_lines(plan: Plan) -> list[str]:
    """The plan for a person without the console: a line a dataset, then what to look at."""
    lines = []
    for dataset in plan.datasets:
        told: dict[str, Any] = dataset.to_json()
        lines.append(
            f"{clean(dataset.id, 20):<4} {clean(told['title'], 40):<18} {dataset.decision:<8} {dataset.reason:<13}"
            f" tokenization {dataset.tokenization} ({dataset.tokenization_reason})"
        )
        lines += [f"       {step.check}: {step.because}" for step in dataset.steps if step.outcome != OK]
        lines += [
            f"     ! {problem.code}: {problem.message}" for problem in dataset.problems if problem.level != "note"
        ]
    for process in plan.running:
        needless = process.needless_tokens
        told_needless = "not known" if needless is None else f"{needless:,}"
        lines.append(f"pid {process.process.pid} would write needless tokens if left alone: {told_needless}")
    for item in plan.assumptions:
        mark = {True: "ok", False: "NO", None: "?"}[item["holds"]]
        lines.append(f"assumed {mark}: {item['detail']}")
    for check in plan.preflight:
        if check.level != OK:
            word = "BLOCKER" if check.level == BLOCKER else "warning"
            remedy = f"; {check.remedy}" if check.remedy else ""
            lines.append(f"preflight {word} {check.check}: {check.detail}{remedy}")
    return [clean(line, 1000) for line in lines]
