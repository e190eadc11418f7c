"""The typed way through a record, for Pythons that have msgspec: it may only say yes.

It accepts exactly the records that we write: the five fields, each once, of the right
types, the counts equal. Whatever it cannot vouch for goes to the plain judge, which
decides; a verdict therefore never depends on msgspec being there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from remote.jsonlines import MAX_LINE_BYTES

if TYPE_CHECKING:
    from remote.records import Judge, Rules, Verdict

_SAFE_INT = 2**53
"""Beyond this the libraries begin to differ on integers: the plain judge decides there."""


def typed_judge(rules: Rules, plain: Judge) -> Judge | None:
    """A judge that falls back on `plain`, or None where msgspec is missing."""
    try:
        import msgspec
    except ImportError:
        return None
    from remote.records import OUR_FINISHES, VALID, Verdict

    token = Annotated[int, msgspec.Meta(ge=0, lt=max(rules.vocab_size, 1))]
    fields: list[tuple[str, Any]] = [
        ("sample_id", str | int),
        ("output_ids", Annotated[list[token], msgspec.Meta(min_length=1)]),
        ("prompt_tokens", int),
        ("completion_tokens", int),
        ("finish_reason", str),
    ]
    decode: Any = msgspec.json.Decoder(
        msgspec.defstruct("OurRecord", fields, forbid_unknown_fields=True, gc=False)
    ).decode
    eos_ids = rules.eos_ids

    def judge(line: bytes) -> tuple[Verdict, list[int]]:
        if len(line) > MAX_LINE_BYTES:
            return plain(line)
        try:
            record = decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return plain(line)
        sample_id, ids = record.sample_id, record.output_ids
        finish, prompt_tokens = record.finish_reason, record.prompt_tokens
        # msgspec takes repeated keys, keeping the last. Five keys and their strings have this
        # many quotes and no more; a sixth key would show.
        quotes = 14
        if type(sample_id) is int:
            quotes = 12
            if not -_SAFE_INT < sample_id < _SAFE_INT:
                return plain(line)
            sample_id = str(sample_id)
        count = len(ids)
        if (
            record.completion_tokens != count
            or finish not in OUR_FINISHES
            or not -_SAFE_INT < prompt_tokens < _SAFE_INT
            or line.count(b'"') != quotes
        ):
            return plain(line)
        no_eos = bool(eos_ids) and finish == "stop" and ids[-1] not in eos_ids
        return Verdict(VALID, "", sample_id, count, prompt_tokens, finish, no_eos), ids

    return judge
