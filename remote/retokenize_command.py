"""`retokenize`: bring tokenized_data.jsonl of each dataset up to date, by hand or as a child of the generator."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.layout import DECLARED, Layout, folder_names
from remote.lock import LOCK_FD, RunLock
from remote.model import ModelFacts, read_model
from remote.options import Options
from remote.render import LazyTokenizer
from remote.retokenize import Outcome, retokenize_dataset
from remote.text import clean


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: Options, args: argparse.Namespace) -> ExitCode:
    """Retokenize what needs it, B1 to B8 and then the others; one that fails does not stop the rest.

    Raises OperatorError: no such root, `--datasets` names nothing there, the lock is held.
    """
    layout = Layout(Path(options.root))
    folders = dataset_folders(layout, options)
    if options.read_only:
        raise OperatorError("read-only", "retokenize changes files, and --read-only is on", "leave --read-only out")
    outcomes: list[Outcome] = []
    with _lock(layout, options):
        model = read_model(options.model_path)
        tokenizer = LazyTokenizer(options)
        for folder in folders:
            with contextlib.redirect_stdout(sys.stderr):
                # A model's own tokenizer code may print; our stdout is for the result alone.
                outcome = _one(layout, folder, options, tokenizer, model)
            outcomes.append(outcome)
            if not args.json:
                print(f"{clean(folder, 40):<22} {outcome.sentence()}", flush=True)
    if args.json:
        print(json.dumps({outcome.folder: outcome.to_json() for outcome in outcomes}))
    for text in dict.fromkeys(clean(outcome.error, 1000) for outcome in outcomes if outcome.error is not None):
        print(f"eagle3-remote: {text}", file=sys.stderr)
    codes = [outcome.error.exit_code for outcome in outcomes if outcome.error is not None]
    return max(codes, default=ExitCode.DONE)


def dataset_folders(layout: Layout, options: Options) -> list[str]:
    """The selected datasets' folders that are there, declared ones first. Raises OperatorError."""
    try:
        found = folder_names(layout.root)
    except OSError as error:
        raise OperatorError(
            "no-root",
            f"{clean(layout.root)} cannot be read ({error.strerror or error})",
            "give the folder of the datasets with --root",
        ) from None
    ordered = [*(name for name in DECLARED if name in found), *sorted(found - DECLARED.keys())]
    chosen = [name for name in ordered if options.selects(name)]
    if options.datasets is not None and not chosen:
        raise OperatorError(
            "usage",
            f"--datasets {clean(','.join(options.datasets))} names nothing under {clean(layout.root)}",
            f"there are {clean(', '.join(ordered)) or 'no folders'}",
            ExitCode.USAGE,
        )
    return chosen


def _one(layout: Layout, folder: str, options: Options, tokenizer: LazyTokenizer, model: ModelFacts) -> Outcome:
    try:
        return retokenize_dataset(layout, folder, options, tokenizer, model)
    except OperatorError as error:
        return Outcome(folder, "failed", error.message, error=error)


@contextlib.contextmanager
def _lock(layout: Layout, options: Options) -> Iterator[None]:
    """The run's lock: the parent's where one was handed down, else our own."""
    given = os.environ.get(LOCK_FD, "")
    if given.isdigit():
        lock = RunLock.inherit(int(given))
    else:
        lock = RunLock.take(layout, "retokenize", accept_unlocked="cannot-lock" in options.accept)
    try:
        yield
    finally:
        lock.release()
