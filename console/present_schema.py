"""Records by class, and problems by line and byte, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from console import text
from console.model import Schema
from remote.text import clean
from widgets.tones import ACT, DIM, GOOD, LOOK

CLASSES = (
    ("valid", "used as they are", GOOD),
    ("repairable", "used, nothing lost", LOOK),
    ("unusable", "their prompts are generated again; the lines stay", ACT),
    ("duplicates", "the first one counts", LOOK),
    ("orphans", "their sample is in no prompt", LOOK),
    ("torn", "last bytes without a newline", ACT),
)


def class_words(schema: Schema) -> Text:
    """`2,912 valid  5 repairable`: every class that is not empty."""
    parts = [
        Text(f"{text.count(number)} {name}", tone)
        for name, _, tone in CLASSES
        if (number := getattr(schema, name)) is not None and number
    ]
    return Text("  ").join(parts) if parts else Text("no records", DIM)


def problem_lines(schema: Schema, width: int) -> Iterable[Text]:
    """Each kind of problem: how many, and the first by line and byte with a cleaned example."""
    for problem in schema.problems:
        line = Text("    ", no_wrap=True)
        line.append(f"{text.count(problem.count):>7}  {clean(problem.code, 40)}", ACT if _hurts(problem.code) else LOOK)
        if problem.line is not None:
            line.append(f"   first: line {text.count(problem.line)}, byte {text.count(problem.offset)}", "")
        yield line
        if problem.example:
            yield Text(f"             {clean(problem.example, max(20, width - 14))}", DIM)


def _hurts(code: str) -> bool:
    return code not in ("repairable", "duplicate", "orphan", "extra-keys", "finish-object", "no-eos")
