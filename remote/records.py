"""One line of `raw_responses.jsonl`: is it usable, and what does it say.

The classes and their order are those of the file contract (docs/files.md). This module
tells `unusable`, `repairable` and `valid` apart; whether a record is an orphan or a
duplicate depends on the other lines and is judged by the scan.

With msgspec a typed decode accepts the records that we write ourselves (records_fast);
every other line takes the way below, so the verdicts are the same with and without it.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from remote.jsonlines import BadJson, strict_loads

RULES_VERSION = 1
"""Raised whenever a rule below changes: what was remembered under other rules is scanned again."""

DEFAULT_VOCAB_SIZE = 163_840
OUR_FINISHES = ("stop", "length")
FIELDS = ("sample_id", "output_ids", "prompt_tokens", "completion_tokens", "finish_reason")

UNUSABLE = "unusable"
REPAIRABLE = "repairable"
VALID = "valid"

REPAIRS = (
    "finish-object",
    "finish-other",
    "no-completion-tokens",
    "no-prompt-tokens",
    "extra-keys",
)
"""Why a record is repairable: the first that applies is its code."""


@dataclass(frozen=True)
class Rules:
    """What a token id may be: below `vocab_size`; `eos_ids` end an answer (empty = not judged)."""

    vocab_size: int = DEFAULT_VOCAB_SIZE
    eos_ids: frozenset[int] = frozenset()


class Verdict(NamedTuple):
    """What one line is. Of an unusable one only `kind`, `code`, and the id where it has one, are filled."""

    kind: str
    code: str = ""
    sample_id: str | None = None
    tokens: int = 0
    prompt_tokens: int | None = None
    finish: str | None = None
    no_eos: bool = False


class Record(NamedTuple):
    """A usable record: `sample_id` as a string, the ids untouched, `finish` as a word."""

    sample_id: str
    output_ids: list[int]
    prompt_tokens: int | None
    finish: str


Judge = Callable[[bytes], "tuple[Verdict, list[int]]"]
"""A line's verdict together with its output ids (empty when unusable)."""


def check(line: bytes, rules: Rules) -> Verdict:
    """The verdict on one line (without or with its newline, not blank)."""
    return judge_for(rules)(line)[0]


def read_record(line: bytes, rules: Rules | None = None) -> Record | None:
    """What a usable line says, or None for an unusable one."""
    verdict, ids = judge_for(rules or Rules())(line)
    if verdict.sample_id is None or verdict.finish is None or verdict.kind == UNUSABLE:
        return None
    return Record(verdict.sample_id, ids, verdict.prompt_tokens, verdict.finish)


@lru_cache(maxsize=16)
def judge_for(rules: Rules) -> Judge:
    """The fastest judge that this Python has for these rules. Look it up once for many lines."""
    from remote.records_fast import typed_judge

    plain = plain_judge(rules)
    return typed_judge(rules, plain) or plain


def plain_judge(rules: Rules) -> Judge:
    """The judge that needs the standard library alone, and the only one that says no."""

    def judge(line: bytes) -> tuple[Verdict, list[int]]:
        try:
            value = strict_loads(line)
        except BadJson as error:
            return Verdict(UNUSABLE, error.code), []
        if not isinstance(value, dict):
            return Verdict(UNUSABLE, "not-an-object"), []
        return _judge_object(value, line, rules)

    return judge


def _judge_object(value: dict[str, Any], line: bytes, rules: Rules) -> tuple[Verdict, list[int]]:
    sample_id = id_text(value.get("sample_id"))
    if sample_id is None:
        return Verdict(UNUSABLE, "no-sample-id"), []
    ids: Any = value.get("output_ids")
    finish, finish_code = _finish(value)
    completion = value.get("completion_tokens")
    fault = _ids_fault(ids, line, rules.vocab_size)
    if not fault and type(completion) is int and completion != len(ids):
        fault = "count-mismatch"
    if not fault and finish is None:
        fault = finish_code
    if fault or finish is None:
        return Verdict(UNUSABLE, fault, sample_id), []
    prompt_tokens = value.get("prompt_tokens")
    known_prompt = type(prompt_tokens) is int
    code = finish_code
    if not code and type(completion) is not int:
        code = "no-completion-tokens"
    if not code and not known_prompt:
        code = "no-prompt-tokens"
    if not code and len(value) > len(FIELDS):
        code = "extra-keys"
    no_eos = bool(rules.eos_ids) and finish == "stop" and ids[-1] not in rules.eos_ids
    verdict = Verdict(
        REPAIRABLE if code else VALID,
        code,
        sample_id,
        len(ids),
        prompt_tokens if known_prompt else None,
        finish,
        no_eos,
    )
    return verdict, ids


def id_text(value: Any) -> str | None:
    """A sample id as it is compared: a string as it is, an integer as its digits, else None."""
    if type(value) is str:
        return value
    return str(value) if type(value) is int else None


def _finish(value: dict[str, Any]) -> tuple[str | None, str]:
    """The finish reason as a word with a repair code, or None with what is wrong."""
    reason = value.get("finish_reason")
    code = ""
    if isinstance(reason, dict):
        reason = reason.get("type")
        code = "finish-object"
    if reason is None and not code:
        return None, "no-finish-reason"
    if not isinstance(reason, str):
        return None, "bad-finish-reason"
    if reason == "abort":
        return None, "aborted"
    if not code and reason not in OUR_FINISHES:
        code = "finish-other"
    return reason, code


def _ids_fault(ids: Any, line: bytes, vocab_size: int) -> str:
    """What is wrong with `output_ids`, or an empty string."""
    if ids is None:
        return "no-output-ids"
    if not isinstance(ids, list):
        return "output-ids-not-a-list"
    if not ids:
        return "output-ids-empty"
    # An array takes integers alone, and booleans: `true` and `false` would show as an `e` between
    # the line's only brackets. Where that does not tell, each id is asked for its type.
    start, stop = line.find(b"["), line.rfind(b"]")
    sure = line.find(b"[", start + 1) < 0 and line.find(b"e", start, stop) < 0
    if not sure and set(map(type, ids)) != {int}:
        return "output-ids-not-integers"
    try:
        packed = array("I", ids)
    except TypeError:
        return "output-ids-not-integers"
    except OverflowError:
        # Negative or enormous; but an id of another type behind it is the graver fault.
        return "outside-vocabulary" if set(map(type, ids)) == {int} else "output-ids-not-integers"
    return "outside-vocabulary" if _reaches(packed, vocab_size) else ""


def _reaches(packed: array[int], limit: int) -> bool:
    """Whether a value is `limit` or more: `max(packed) >= limit` in a third of the time.

    The array is one long number with a lane of 32 bits for each value. Adding 2^31 - limit to every
    lane sets the lane's top bit where the value reaches the limit, and never carries into the next.
    """
    if limit > 1 << 31:
        return max(packed) >= limit
    add, top = _lanes(len(packed).bit_length(), limit)
    values = int.from_bytes(packed.tobytes(), sys.byteorder)
    return bool(values & top) or bool((values + add) & top)


@lru_cache(maxsize=64)
def _lanes(bits: int, limit: int) -> tuple[int, int]:
    """2^31 - limit, and the top bit, in each of 2^bits lanes."""
    ones = int.from_bytes((1).to_bytes(4, "little") * (1 << bits), "little")
    return ((1 << 31) - limit) * ones, (1 << 31) * ones
