"""`scan`: check every record of every dataset and say what is there. Changes nothing but its own memory."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from remote.dataset_scan import APPENDING_STATES, DatasetScan
from remote.exitcodes import ExitCode
from remote.index_place import index_place
from remote.layout import Layout
from remote.model import read_model
from remote.options import Options
from remote.problems import Problem
from remote.records import Rules
from remote.scan import RootScan, Scanner
from remote.snapshot import compose
from remote.snapshot_parts import Parts
from remote.status import generator_status
from remote.text import clean


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument("--json", action="store_true", help="the whole scan as one JSON object")


def run(options: Options, args: argparse.Namespace) -> ExitCode:
    """Print what is there. Raises OperatorError when there is no such root, or the model cannot be read."""
    model = read_model(options.model_path)
    layout = Layout(Path(options.root))
    scanner = Scanner(layout.root, Rules(model.vocab_size, model.eos_ids), _index(layout, options))
    scan = scanner.poll()
    scanner.save()
    if scanner.index_error:
        print(clean(scanner.index_error, 400), file=sys.stderr)
    states = states_of(layout, options, scan)
    if args.json:
        print(json.dumps(scan.to_json(states, options.token_budget), ensure_ascii=False))
    else:
        for line in text_lines(scan, states, options):
            print(line)
    return ExitCode.DONE


def states_of(layout: Layout, options: Options, scan: RootScan) -> dict[str, str]:
    """Each folder's state word, by the one rule that the console's table uses too."""
    parts = Parts(root=scan.root, options=options, agent={}, scan=scan, generator=generator_status(layout))
    rows = compose(parts)["datasets"]
    return {dataset.folder: rows[clean(dataset.folder, 120)]["state"] for dataset in scan.datasets}


def _index(layout: Layout, options: Options) -> Path | None:
    """A root that cannot be looked at is the scan's to tell, not the index's."""
    try:
        return index_place(layout, options.read_only)
    except OSError:
        return None


def text_lines(scan: RootScan, states: Mapping[str, str], options: Options) -> list[str]:
    """The scan for a person: a line a dataset, then every kind of problem with its place."""
    head = ("id", "dataset", "state", "prompts", "responses", "tokenized", "tokens", "budget", "records")
    lines = [_columns(*head)]
    for dataset in scan.datasets:
        budget = options.token_budget.of(dataset.folder)
        lines.append(
            _columns(
                clean(dataset.id, 12),
                clean(dataset.title, 18),
                states[dataset.folder],
                _number(dataset.prompts),
                _number(dataset.responses),
                _number(dataset.tokenized),
                _number(dataset.tokens),
                _number(budget) if budget else "none",
                _records(dataset),
            )
        )
    for dataset in scan.datasets:
        appending = states[dataset.folder] in APPENDING_STATES
        lines += [
            _problem_line(dataset, problem)
            for problem in dataset.problems
            if not (appending and problem.code == "torn")
        ]
    return lines


def _columns(*cells: str) -> str:
    widths = (5, 19, 14, -9, -10, -10, -12, -12)
    padded = [
        cell.ljust(width - 1) + " " if width > 0 else cell.rjust(-width)
        for cell, width in zip(cells, widths, strict=False)
    ]
    return "".join([*padded, "  ", cells[-1]]).rstrip()


def _number(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _records(dataset: DatasetScan) -> str:
    classes = dataset.classes.to_json()
    return ", ".join(f"{count:,} {name}" for name, count in classes.items() if count) or "-"


def _problem_line(dataset: DatasetScan, problem: Problem) -> str:
    where = clean(f"{dataset.folder}/{problem.file}", 120)
    if problem.line is not None:
        where += f", first in line {problem.line:,} at byte {problem.offset:,}"
    example = f": {problem.example}" if problem.example else ""
    return clean(f"{problem.count:,} × {problem.code} ({problem.meaning}) in {where}{example}", 600)
