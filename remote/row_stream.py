"""The rows of one dataset, streamed in the order of raw_responses.jsonl, and a tally of every line that has none.

Ids and offsets alone stay in memory: a prompt is read again from its offset when its answer comes by.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from remote.errors import OperatorError
from remote.jsonlines import is_blank, lines
from remote.layout import PROMPTS, RESPONSES, Layout
from remote.model import ModelFacts
from remote.options import Options
from remote.prompts import BadPrompt, Prompt, parse_prompt, read_prompts
from remote.provenance import read_recorded
from remote.records import UNUSABLE, Rules, Verdict, judge_for
from remote.render import Tokenizer, Unrenderable
from remote.text import clean
from remote.tokenization import ANSWERS
from remote.tokenized_meta import MAX_PASSED_OVER, SURVIVE_AT, FileStamp, LeftOut, PassedOver, stamp
from remote.training_rows import output_text, row_line


@dataclass
class Tally:
    """What one pass counts. Every line of raw_responses.jsonl is a row, left out, passed over, or blank."""

    rows: int = 0
    loss_tokens: int = 0
    row_tokens: int = 0
    longest: int = 0
    survive: Counter[int] = field(default_factory=Counter)
    checked: Counter[str] = field(default_factory=Counter)
    left_out: list[LeftOut] = field(default_factory=list)
    passed_over: list[PassedOver] = field(default_factory=list)
    passed_over_by_kind: Counter[str] = field(default_factory=Counter)

    def row(self, length: int, loss_tokens: int, how_checked: str) -> None:
        """Count one row of `length` tokens."""
        self.rows += 1
        self.loss_tokens += loss_tokens
        self.row_tokens += length
        self.longest = max(self.longest, length)
        self.checked[how_checked] += 1
        for limit in SURVIVE_AT:
            self.survive[limit] += length <= limit


class _LeaveOut(Exception):
    """This answer gets no row: reason and detail."""


class RowStream:
    """One pass over one dataset. After `rows` is exhausted, `tally` and `inputs` (stamps of what was read) are whole."""

    def __init__(self, layout: Layout, folder: str, options: Options, tokenizer: Tokenizer, model: ModelFacts) -> None:
        self._prompts_path = layout.folder(folder) / PROMPTS
        self._responses_path = layout.folder(folder) / RESPONSES
        self._answers_path = layout.answers_of(folder)
        self._options = options
        self._tokenizer = tokenizer
        self._vocab_size = model.vocab_size
        self._judge = judge_for(Rules(model.vocab_size, model.eos_ids))
        self.tally = Tally()
        self.inputs: dict[str, FileStamp | None] = {}

    def rows(self) -> Iterator[tuple[str, bytes]]:
        """Sample id (as text) and line of every row. Raises OSError and OperatorError (`moved`)."""
        places = self._index_prompts()
        answers = stamp(self._answers_path)
        self._recorded = read_recorded(self._answers_path)
        self.inputs[ANSWERS] = replace(answers, size=self._recorded.size) if answers else None
        seen: set[str] = set()
        with self._prompts_path.open("rb") as prompts, self._responses_path.open("rb") as source:
            facts = os.fstat(source.fileno())
            for offset, line in lines(source.fileno(), 0, facts.st_size):
                if is_blank(line):
                    continue
                verdict, outputs = self._judge(line)
                key = verdict.sample_id
                if verdict.kind == UNUSABLE or key is None:
                    ended = offset + len(line) < facts.st_size
                    self._pass_over(offset, "unusable" if ended else "torn", verdict.code, key)
                elif key not in places or key in seen:
                    self._pass_over(offset, "duplicate" if key in seen else "orphan", "", key)
                else:
                    seen.add(key)
                    try:
                        yield key, self._row(key, line, verdict, outputs, prompts, places[key])
                    except _LeaveOut as left_out:
                        self.tally.left_out.append(LeftOut(key, *left_out.args))
            self.inputs[RESPONSES] = FileStamp.of(facts, digest_of(self._responses_path, facts.st_size))

    def check_inputs(self) -> None:
        """Raise OperatorError (`moved`) when an input was changed while it was read; appended records are for next time."""
        for name, path in ((PROMPTS, self._prompts_path), (RESPONSES, self._responses_path)):
            was, now = self.inputs[name], stamp(path)
            grown = name == RESPONSES and was and now and now.inode == was.inode and now.size > was.size
            if was is None or not (grown or was.matches(now)):
                raise _moved(path)

    def _index_prompts(self) -> dict[str, int]:
        """Sample id to the offset of its prompt: usable prompts, the first of each id."""
        facts = self._prompts_path.stat()
        places = {prompt.key: prompt.offset for prompt in read_prompts(self._prompts_path)}
        self.inputs[PROMPTS] = FileStamp.of(facts, digest_of(self._prompts_path, facts.st_size))
        return places

    def _row(self, key: str, line: bytes, verdict: Verdict, outputs: list[int], prompts: BinaryIO, place: int) -> bytes:
        if verdict.finish == "length" and self._options.on_length == "drop":
            raise _LeaveOut("length-finish", "cut by length; --on-length drop")
        prompt = _prompt_at(prompts, place)
        if prompt is None or prompt.key != key:
            raise _moved(self._prompts_path)
        ids = self._ids(prompt)
        how = self._check_prompt(key, ids, verdict.prompt_tokens)
        length = len(ids) + len(outputs)
        limit = self._options.max_seq_len
        if limit is not None and length > limit:
            raise _LeaveOut("too-long", f"{length:,} tokens; --max-seq-len {limit}")
        if not outputs:
            # The records' rules allow no empty answer; a mask of zeros must not be written even if they did.
            raise _LeaveOut("no-loss", "no answer token")
        self.tally.row(length, len(outputs), how)
        return row_line(prompt.sample_id, ids, output_text(line, outputs), len(outputs))

    def _ids(self, prompt: Prompt) -> list[int]:
        try:
            ids = self._tokenizer.prompt_ids(prompt)
        except Unrenderable as error:
            raise _LeaveOut("unrenderable", str(error)) from None
        if max(ids) >= self._vocab_size:
            raise _LeaveOut("unrenderable", f"prompt id {max(ids)} is outside the model's vocabulary")
        return ids

    def _check_prompt(self, key: str, ids: list[int], prompt_tokens: int | None) -> str:
        """How the prompt was found to be the one that was answered: `digest`, `count`, or `none` where nothing tells."""
        same_count = None if prompt_tokens is None else prompt_tokens == len(ids)
        by_digest = self._recorded.check(key, ids, same_count)
        if by_digest is not None:
            if not by_digest:
                raise _LeaveOut("prompt-mismatch", "the prompt's ids are not those that were answered")
            return "digest"
        if same_count is False:
            detail = f"{prompt_tokens:,} prompt tokens were answered, {len(ids):,} are rendered now"
            raise _LeaveOut("prompt-mismatch", detail)
        return "none" if same_count is None else "count"

    def _pass_over(self, offset: int, kind: str, code: str, key: str | None) -> None:
        self.tally.passed_over_by_kind[kind] += 1
        if len(self.tally.passed_over) < MAX_PASSED_OVER:
            self.tally.passed_over.append(PassedOver(offset, kind, code, None if key is None else clean(key)))


def digest_of(path: Path, size: int) -> str:
    """SHA-256, in hex, of the first `size` bytes of a file. Raises OSError."""
    running = hashlib.sha256()
    with path.open("rb") as source:
        while size > 0 and (block := source.read(min(size, 1 << 20))):
            running.update(block)
            size -= len(block)
    return running.hexdigest()


def _prompt_at(source: BinaryIO, offset: int) -> Prompt | None:
    source.seek(offset)
    try:
        return parse_prompt(source.readline(), offset)
    except BadPrompt:
        return None


def _moved(path: Path) -> OperatorError:
    return OperatorError(
        "moved",
        f"{clean(path)} was changed while it was read; the rows were left as they are",
        "find who writes it, then retokenize again",
    )
