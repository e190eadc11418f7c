"""One dataset in full: from what the agent answers to `dataset` and `row`, to finished lines. Pure and lenient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from console import text
from console.lenient import Fields
from console.model import Dataset
from console.present_schema import class_words, problem_lines
from console.view import View
from remote.text import clean
from remote.tokenization import reason_words
from widgets.bars import bar
from widgets.token_row import Token, token_rows
from widgets.tones import ACT, CURVE, DIM, GOOD, LOOK, NOTE, STRONG, UNKNOWN

FINISH_WORDS = {
    "stop": ("ended by itself", GOOD),
    "length": ("cut by the token limit", LOOK),
}
MAX_ROWS = 40
ROOMY = 90


def heading(text_: str, remark: str = "") -> Text:
    """A section's title."""
    return Text.assemble((text_, STRONG), (f"  {remark}" if remark else "", DIM))


def dataset_page(view: View, row: Dataset, answer: Mapping[str, Any] | None, width: int) -> list[Text]:
    """Everything but the training row."""
    notes: list[str] = []
    fields = Fields(answer, row.folder, notes)
    lines = [_title(row), *_plan_lines(row), Text("")]
    lines += _file_lines(view, fields, width)
    lines += [Text(""), *finish_lines(row.finish_reasons, width)]
    lines += [Text(""), *length_lines(fields, width)]
    lines += [Text(""), Text.assemble(heading("records"), "  ", class_words(row.schema))]
    lines += problem_lines(row.schema, width)
    if row.no_eos:
        lines.append(
            Text(f"    {text.count(row.no_eos):>7}  no-eos: ended by `stop`, not by an end-of-sequence id", LOOK)
        )
    if row.trailing_assistant:
        words = "prompts end in the source's own answer, which is left out"
        lines.append(Text(f"    {text.count(row.trailing_assistant):>7}  {words}", DIM))
    lines += [Text(""), *meta_lines(row, fields, width)]
    return lines


def _title(row: Dataset) -> Text:
    return Text.assemble(
        (f"{row.id} {row.title}", STRONG),
        (f"  {clean(row.folder, 80)}  ", DIM),
        ((row.state or UNKNOWN).replace("-", " "), NOTE),
    )


def _plan_lines(row: Dataset) -> list[Text]:
    share = text.percent(row.tokens, row.budget)
    first = (
        f"{text.count(row.answered)} of {text.count(row.prompts)} prompts answered, {text.tokens(row.tokens)} tokens"
        f" of {text.limit(row.budget)} ({share}), mean {text.about(row.mean_tokens)} a sample"
    )
    words = [
        f"{name}: {' '.join(part for part in (decision.decision, f'({reason_words(decision.reason)})' if decision.reason else '') if part)}"
        for name, decision in (("a restart would", row.inference), ("tokenization", row.tokenization))
        if decision.decision
    ]
    return [Text(first), Text("   ".join(words).replace("-", " "), DIM)] if words else [Text(first)]


def _file_lines(view: View, fields: Fields, width: int) -> list[Text]:
    files = fields.children("files", lambda item: item)
    if not files:
        return [heading("files", "none" if fields.present else "asking …")]
    wide = max(len(item.text("name", 60) or "") for item in files)
    out = [heading("files")]
    for item in files:
        changed = item.number("mtime")
        line = Text(f"  {(item.text('name', 60) or UNKNOWN):<{wide}}", no_wrap=True)
        line.append(f"{text.size(item.count('size')):>10}")
        lines = item.count("lines")
        line.append(f"  {text.count(lines):>9} line{'s' if lines != 1 else ' '}" if lines is not None else " " * 17)
        when = f"{text.moment(changed, view.container_now)}, {text.age(view.age_s(changed))} ago"
        if width >= ROOMY:
            when = f"changed {when}"
        line.append(f"  {when}" if changed is not None else "", DIM)
        if detail := item.text("detail", 200):
            line.append(f"  {detail}", LOOK)
        out.append(line)
    return out


def finish_lines(reasons: Mapping[str, int], width: int) -> list[Text]:
    """How answers ended, with shares; `length` is never hidden among the normal ends."""
    total = sum(reasons.values())
    if not total:
        return [heading("finish reasons", "no answers")]
    out = [heading("finish reasons")]
    for name, number in sorted(reasons.items(), key=lambda item: -item[1]):
        meaning, tone = FINISH_WORDS.get(name, ("", LOOK))
        line = Text(f"  {clean(name, 20):<12}{text.count(number):>9} {text.percent(number, total):>7}  ", no_wrap=True)
        line.append(bar(number / total, max(4, min(30, width - 60))), f"{DIM} {tone}")
        line.append(f"  {meaning}", DIM)
        out.append(line)
    return out


def length_lines(fields: Fields, width: int) -> list[Text]:
    """The histogram of answer lengths in tokens, regrouped to at most a dozen rows."""
    child = fields.child("lengths")
    counts = child.raw("counts")
    bucket = child.count("bucket")
    if not isinstance(counts, list) or not bucket or not any(counts):
        return [heading("answer lengths", "no answers")]
    numbers = [number if isinstance(number, int) and number > 0 else 0 for number in counts]
    last = max(at for at, number in enumerate(numbers) if number) + 1
    step = nice_step(last * bucket, 12)
    grouped = [0] * (-(-last * bucket // step))
    for at, number in enumerate(numbers[:last]):
        grouped[at * bucket // step] += number
    most = max(grouped)
    cells = max(8, min(48, width - 40))
    out = [heading("answer lengths", "completion tokens a sample")]
    for at, number in enumerate(grouped):
        line = Text(no_wrap=True)
        line.append(f"  {text.count(at * step):>7} – {text.count((at + 1) * step - 1):<7} ", DIM)
        line.append(bar(number / most, cells), CURVE).append(f" {text.count(number)}", "" if number else DIM)
        out.append(line)
    return out


def nice_step(longest: int, rows: int) -> int:
    """The smallest of 1, 2, 5 times a power of ten that makes at most `rows` groups up to `longest`."""
    scale = 1
    while True:
        for factor in (1, 2, 5):
            if factor * scale * rows >= longest:
                return factor * scale
        scale *= 10


def meta_lines(row: Dataset, fields: Fields, width: int) -> list[Text]:
    """Why so many rows were tokenized: how it was made, and every sample that was left out, by reason."""
    meta = fields.child("meta")
    out = [heading("tokenized", f"{text.count(row.tokenized)} rows")]
    if not meta.present:
        if row.tokenized:
            out.append(Text("  There is no record of how this file was made (no tokenized_data.meta.json).", LOOK))
        return out
    facts = f"  {text.count(meta.count('rows'))} rows, {text.tokens(meta.count('loss_tokens'))} tokens with loss"
    survive = meta.counts("survive")
    if survive:
        facts += ", rows up to " + ", ".join(f"{limit}: {text.count(number)}" for limit, number in survive.items())
    out.append(Text(facts))
    for reason, number in meta.counts("left_out_by_reason").items():
        out.append(Text(f"  {text.count(number):>7} left out: {reason.replace('-', ' ')}", LOOK))
    shown = 0
    for item in fields.children("left_out", lambda one: one, MAX_ROWS):
        sample = item.text("sample_id", 60) or UNKNOWN
        detail = item.text("detail", 160) or ""
        out.append(Text(f"          {sample}  {item.text('reason', 60) or ''}  {detail}"[: max(40, width)], DIM))
        shown += 1
    if shown == MAX_ROWS:
        out.append(Text("          … the meta file on the container has them all", DIM))
    return out


def row_page(answer: object, number: int, width: int) -> list[Text]:
    """A decoded training row: prompt and answer, mask and border, special tokens."""
    notes: list[str] = []
    fields = Fields(answer if isinstance(answer, dict) else {"tokens": answer}, "row", notes)
    tokens = fields.children("tokens", _token, 100_000)
    sample = fields.text("sample_id", 80)
    title = heading(f"training row {number:,}", f"sample {sample}" if sample else "")
    if not tokens:
        return [title, Text("  there is no such row", DIM)]
    trained = sum(token.mask for token in tokens)
    title.append(f"  {len(tokens):,} tokens, {trained:,} of them trained on", DIM)
    if not trained:
        title.append("  NOTHING IS TRAINED ON", ACT)
    faults = [Text(f"  ✗ {problem}", ACT) for problem in fields.texts("problems", 200)]
    return [title, *faults, *token_rows(tokens, width, fields.count("left") or 0)]


def _token(item: Fields) -> Token | None:
    number = item.integer("id")
    raw = item.raw("text")
    words = clean(raw, 400) if isinstance(raw, str) else UNKNOWN
    return Token(
        -1 if number is None else number, words, 1 if item.integer("mask") == 1 else 0, item.flag("special") or False
    )


def page_text(lines: Sequence[Text]) -> str:
    """A page as plain text, for copying."""
    return "\n".join(line.plain.rstrip() for line in lines)
