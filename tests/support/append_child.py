"""A process that writes answers as the generator does, and says on stdout which ones were acknowledged.

    python -m tests.support.append_child ROOT FOLDER COUNT [WRITERS] [FSYNC_EVERY_S]

It resumes by sample id: of the ids `s0` … it writes those that the scan does not find answered.
One line `opened` when the files are open, one line `ack ID` for each acknowledged answer; an
OperatorError goes to stderr as one line of JSON and ends it with that error's exit code.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from remote.acceptance import Answer
from remote.answers import AnswerWriter
from remote.errors import OperatorError
from remote.layout import PROMPTS, Layout
from remote.lines import record_line
from remote.prompts import Prompt
from remote.records import Rules
from remote.scan import scan_root
from tests.support.tree import prompt, write_lines


def _say(text: str) -> None:
    os.write(1, text.encode() + b"\n")


def _ids_of(name: str) -> list[int]:
    """The same ids for the same sample, a few or some thousand of them."""
    rng = random.Random(name)
    return [rng.randrange(1000) for _ in range(rng.choice([1, 30, 300, 3000]))]


async def _write_all(layout: Layout, folder: str, names: Iterator[str], writers: int, every_s: float | None) -> None:
    writer = AnswerWriter(layout, every_s)
    repairs = await writer.open(folder)
    _say("opened " + json.dumps([repair.kind for repair in repairs]))

    async def work() -> None:
        for name in names:
            answer = json.dumps({"sample_id": name, "run": str(os.getpid())}).encode() + b"\n"
            line = record_line(Prompt(name, name, "prompt"), Answer(_ids_of(name), 5, "stop", None, None))
            await writer.write(folder, line, answer)
            _say(f"ack {name}")

    try:
        await asyncio.gather(*(work() for _ in range(writers)))
    finally:
        await writer.close()


def main(argv: list[str]) -> int:
    """Write what is missing; the exit code is the OperatorError's, or 0."""
    layout, folder, count = Layout(Path(argv[0])), argv[1], int(argv[2])
    writers = int(argv[3]) if len(argv) > 3 else 8
    every_s = float(argv[4]) if len(argv) > 4 else None
    path = layout.folder(folder) / PROMPTS
    if not path.exists():
        write_lines(path, (prompt(f"s{number}") for number in range(count)))
    answered = scan_root(layout.root, Rules()).dataset(folder).answered_ids()
    missing = (name for number in range(count) if (name := f"s{number}") not in answered)
    try:
        asyncio.run(_write_all(layout, folder, missing, writers, every_s))
    except OperatorError as error:
        print(json.dumps(error.to_json()), file=sys.stderr)
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
