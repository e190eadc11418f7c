"""`row`: one training row decoded; run by the agent with the Python that has transformers."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from pathlib import Path

from remote.decode_row import decode_row
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.layout import Layout
from remote.options import Options
from remote.text import clean


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("--folder", required=True, metavar="NAME", help="the dataset's folder")
    parser.add_argument("--row", type=int, default=1, metavar="N", help="which row, counted from 1")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: Options, args: argparse.Namespace) -> ExitCode:
    """Print the row. Raises OperatorError."""
    if Path(args.folder).name != args.folder or args.folder in ("", ".", ".."):
        raise OperatorError("usage", f"{clean(args.folder)!r} is no folder's name", "write B1_glaive", ExitCode.USAGE)
    with contextlib.redirect_stdout(sys.stderr):
        # A model's own tokenizer code may print; our stdout is for the result alone.
        row = decode_row(Layout(Path(options.root)), args.folder, args.row, options)
    if args.json:
        print(json.dumps(row))
        return ExitCode.DONE
    print(f"{row['folder']} row {row['row']}: sample {clean(row['sample_id'])}")
    print(f"{row['prompt_tokens']:,} prompt tokens, {row['answer_tokens']:,} answer tokens")
    texts = [token["text"] for token in row["tokens"]]
    print("prompt  " + "".join(texts[: row["border"]]))
    print("answer  " + "".join(texts[row["border"] :]))
    for problem in row["problems"]:
        print(f"! {problem}")
    return ExitCode.DONE
