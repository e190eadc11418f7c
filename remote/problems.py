"""What is wrong in a file, by kind: how many, and where the first one is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from remote.text import clean

EXAMPLE_CHARS = 120

MEANINGS: dict[str, str] = {
    "bad-json": "the line is not JSON",
    "bad-utf8": "the line is not UTF-8",
    "not-finite": "NaN, an infinity or a number too large: not JSON",
    "repeated-key": "a key comes more than once",
    "lone-surrogate": "half of a surrogate pair: no such character",
    "too-deep": "nested too deeply",
    "line-too-long": "the line is longer than any record can be",
    "not-an-object": "the line is JSON, but not an object",
    "no-sample-id": "sample_id is missing, or neither text nor an integer",
    "no-output-ids": "output_ids is missing or null",
    "output-ids-not-a-list": "output_ids is not a list (base64 text, as another version wrote?)",
    "output-ids-empty": "output_ids is empty",
    "output-ids-not-integers": "output_ids holds something else than integers",
    "outside-vocabulary": "a token id lies outside the model's vocabulary",
    "count-mismatch": "completion_tokens differs from the number of output_ids",
    "no-finish-reason": "finish_reason is missing or null",
    "bad-finish-reason": "finish_reason is neither a word nor an object with a type",
    "aborted": "the answer was aborted",
    "finish-object": "finish_reason is the engine's object; its type is used",
    "finish-other": "finish_reason is neither stop nor length",
    "no-completion-tokens": "completion_tokens is missing or not an integer",
    "no-prompt-tokens": "prompt_tokens is missing or not an integer",
    "extra-keys": "the record has further keys",
    "orphan": "no prompt has this sample_id",
    "duplicate": "an earlier record answers the same prompt; that one counts",
    "torn": "the file ends in the middle of a record",
    "no-eos": "the answer stopped without an end-of-sequence id",
    "repeated-prompt": "an earlier prompt has the same sample_id; that one counts",
    "several-prompt-forms": "more than one of messages, conversations, prompt, input_ids",
    "no-prompt-form": "none of messages, conversations, prompt, input_ids",
    "bad-messages": "messages is not a list of turns",
    "bad-role": "a turn has no role, or an unknown one",
    "bad-content": "a turn's content is neither text nor a list of parts",
    "bad-conversations": "conversations is not a list of from/value turns",
    "bad-prompt-text": "prompt is not text, or empty",
    "bad-input-ids": "input_ids is not a list of token ids",
    "bad-tools": "tools is not a list of objects",
    "no-turn-to-answer": "nothing is left to answer without the source's own answers",
    "repeated-row": "an earlier row has the same sample_id",
    "bad-loss-mask": "loss_mask is not a list of 0 and 1",
    "mask-length": "loss_mask and input_ids differ in length",
    "mask-all-zero": "loss_mask trains on nothing",
    "unreadable": "the file cannot be read",
}
"""Every problem code with one sentence for people."""


@dataclass(frozen=True)
class Problem:
    """One kind of problem in one file. `line` counts from 1, `offset` in bytes from 0, both of the first case."""

    code: str
    count: int
    file: str
    line: int | None
    offset: int | None
    example: str

    @property
    def meaning(self) -> str:
        """The code in words."""
        return MEANINGS.get(self.code, self.code)

    def to_json(self) -> dict[str, Any]:
        """As in `scan --json`, with the file and the meaning."""
        return {
            "code": self.code,
            "count": self.count,
            "file": self.file,
            "line": self.line,
            "offset": self.offset,
            "example": self.example,
            "meaning": self.meaning,
        }


class ProblemLog:
    """Counts problems by code and keeps the first of each."""

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[int, int, int, str]] = {}

    def add(self, code: str, line: int, offset: int, source: bytes | str) -> None:
        """Count one; `source` (the line, or the sample's id) becomes the example if it is the first."""
        known = self._kinds.get(code)
        if known is None:
            self._kinds[code] = (1, line, offset, clean(source, EXAMPLE_CHARS))
        else:
            self._kinds[code] = (known[0] + 1, *known[1:])

    def copy(self) -> ProblemLog:
        """A log that counts on from here on its own."""
        other = ProblemLog()
        other._kinds = dict(self._kinds)
        return other

    def problems(self, file: str) -> Iterable[Problem]:
        """One Problem a code, in the order in which they were met."""
        for code, (count, line, offset, example) in self._kinds.items():
            yield Problem(code, count, file, line, offset, example)

    def to_json(self) -> dict[str, Any]:
        """For the index; `from_json` is its inverse."""
        return {code: list(kind) for code, kind in self._kinds.items()}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ProblemLog:
        """Rebuild; raises ValueError or TypeError on anything that `to_json` did not write."""
        log = cls()
        for code, (count, line, offset, example) in value.items():
            log._kinds[str(code)] = (int(count), int(line), int(offset), str(example))
        return log
