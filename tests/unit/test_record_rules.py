"""The classes of a record, rule by rule, by both ways through it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from remote.jsonlines import MAX_DEPTH, MAX_LINE_BYTES
from remote.problems import MEANINGS
from remote.records import REPAIRABLE, REPAIRS, UNUSABLE, VALID, Judge, Rules, judge_for, plain_judge, read_record
from tests.support.tree import response

RULES = Rules(vocab_size=1000, eos_ids=frozenset({99}))
GOOD: dict[str, Any] = {
    "sample_id": "a",
    "output_ids": [1, 2, 99],
    "prompt_tokens": 4,
    "completion_tokens": 3,
    "finish_reason": "stop",
}


@pytest.fixture(params=["typed", "plain"])
def judge(request: pytest.FixtureRequest) -> Judge:
    if request.param == "plain":
        return plain_judge(RULES)
    pytest.importorskip("msgspec", reason="needs msgspec (pip install msgspec)")
    return judge_for(RULES)


def _changed(**changes: Any) -> bytes:
    record = {**GOOD, **changes}
    return json.dumps({key: value for key, value in record.items() if value is not ...}).encode()


UNUSABLE_LINES = [
    (b"nonsense", "bad-json"),
    (b"", "bad-json"),
    (_changed() + b" {}", "bad-json"),
    (_changed()[:-1], "bad-json"),
    (_changed().replace(b"4", b"04"), "bad-json"),
    (_changed().replace(b"4", b"9" * 5000), "bad-json"),
    (_changed().replace(b'"a"', b'"\x01"'), "bad-json"),
    (_changed().replace(b'"a"', b'"\xff"'), "bad-utf8"),
    (_changed().replace(b'"a"', b'"\xed\xa0\x80"'), "bad-utf8"),
    (_changed().decode().encode("utf-16"), "bad-utf8"),
    (_changed().replace(b'"a"', b'"\\ud800"'), "lone-surrogate"),
    (_changed().replace(b"4", b"NaN"), "not-finite"),
    (_changed().replace(b"4", b"-Infinity"), "not-finite"),
    (_changed().replace(b"4", b"1e999"), "not-finite"),
    (_changed()[:-1] + b', "sample_id": "b"}', "repeated-key"),
    (_changed()[:-1] + b', "sample_i\\u0064": "a"}', "repeated-key"),
    (_changed()[:-1] + b', "x": {"y": 1, "y": 2}}', "repeated-key"),
    (_changed()[:-1] + b', "x": ' + b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1) + b"}", "too-deep"),
    (b"[" * 100_000, "too-deep"),
    (b"[1]", "not-an-object"),
    (b'"text"', "not-an-object"),
    (_changed(sample_id=...), "no-sample-id"),
    (_changed(sample_id=None), "no-sample-id"),
    (_changed(sample_id=True), "no-sample-id"),
    (_changed(sample_id=1.0), "no-sample-id"),
    (_changed(sample_id=["a"]), "no-sample-id"),
    (_changed(output_ids=...), "no-output-ids"),
    (_changed(output_ids=None), "no-output-ids"),
    (_changed(output_ids="AQIDBA=="), "output-ids-not-a-list"),
    (_changed(output_ids={"ids": [1]}), "output-ids-not-a-list"),
    (_changed(output_ids=3), "output-ids-not-a-list"),
    (_changed(output_ids=[], completion_tokens=0), "output-ids-empty"),
    (_changed(output_ids=[1, 2.0, 3]), "output-ids-not-integers"),
    (_changed().replace(b"2,", b"2e0,"), "output-ids-not-integers"),
    (_changed(output_ids=[1, True, 3]), "output-ids-not-integers"),
    (_changed(output_ids=[1, None, 3]), "output-ids-not-integers"),
    (_changed(output_ids=[1, "2", 3]), "output-ids-not-integers"),
    (_changed(output_ids=[[1, 2, 3]], completion_tokens=1), "output-ids-not-integers"),
    (_changed(output_ids=[1, -1, 3]), "outside-vocabulary"),
    (_changed(output_ids=[1, 1000, 3]), "outside-vocabulary"),
    (_changed(output_ids=[1, 2**70, 3]), "outside-vocabulary"),
    (_changed(completion_tokens=4), "count-mismatch"),
    (_changed(completion_tokens=-3), "count-mismatch"),
    (_changed(finish_reason=...), "no-finish-reason"),
    (_changed(finish_reason=None), "no-finish-reason"),
    (_changed(finish_reason="abort"), "aborted"),
    (_changed(finish_reason={"type": "abort", "message": "client gone"}), "aborted"),
    (_changed(finish_reason=1), "bad-finish-reason"),
    (_changed(finish_reason=["stop"]), "bad-finish-reason"),
    (_changed(finish_reason={}), "bad-finish-reason"),
    (_changed(finish_reason={"type": None}), "bad-finish-reason"),
]


@pytest.mark.parametrize(("line", "code"), UNUSABLE_LINES)
def test_unusable(judge: Judge, line: bytes, code: str) -> None:
    verdict, ids = judge(line)
    assert (verdict.kind, verdict.code, ids) == (UNUSABLE, code, [])
    assert code in MEANINGS


REPAIRABLE_LINES = [
    (_changed(finish_reason={"type": "stop", "matched": 99}), "finish-object", "stop"),
    (_changed(finish_reason={"type": "length", "length": 3}), "finish-object", "length"),
    (_changed(finish_reason="tool_calls"), "finish-other", "tool_calls"),
    (_changed(finish_reason=""), "finish-other", ""),
    (_changed(completion_tokens=...), "no-completion-tokens", "stop"),
    (_changed(completion_tokens=None), "no-completion-tokens", "stop"),
    (_changed(completion_tokens="3"), "no-completion-tokens", "stop"),
    (_changed(completion_tokens=3.0), "no-completion-tokens", "stop"),
    (_changed(completion_tokens=True), "no-completion-tokens", "stop"),
    (_changed(prompt_tokens=...), "no-prompt-tokens", "stop"),
    (_changed(prompt_tokens=4.5), "no-prompt-tokens", "stop"),
    (_changed(text="said"), "extra-keys", "stop"),
    (_changed(text=[[1]]), "extra-keys", "stop"),
]


@pytest.mark.parametrize(("line", "code", "finish"), REPAIRABLE_LINES)
def test_repairable(judge: Judge, line: bytes, code: str, finish: str) -> None:
    verdict, ids = judge(line)
    assert (verdict.kind, verdict.code, verdict.finish) == (REPAIRABLE, code, finish)
    assert (verdict.sample_id, verdict.tokens, ids) == ("a", 3, [1, 2, 99])
    assert code in REPAIRS and code in MEANINGS


@pytest.mark.parametrize(
    ("line", "sample_id"),
    [
        (_changed(), "a"),
        (_changed(sample_id=7), "7"),
        (_changed(sample_id=-(2**70)), str(-(2**70))),
        (_changed(sample_id='q"[{\\'), 'q"[{\\'),
        (_changed(sample_id="日本"), "日本"),
        (_changed(sample_id="\u2028"), "\u2028"),
        (_changed(sample_id=""), ""),
        (_changed(finish_reason="length"), "a"),
        (b"\xef\xbb\xbf" + _changed() + b"\r", "a"),
        (b"  " + _changed() + b"\t\n", "a"),
        (_changed().replace(b" ", b""), "a"),
        (json.dumps(dict(reversed(GOOD.items()))).encode(), "a"),
        (_changed().replace(b'"a"', b'"\\u0061"'), "a"),
        (_changed().replace(b'"a"', b'"\\ud83d\\ude00"'), "😀"),
    ],
)
def test_valid(judge: Judge, line: bytes, sample_id: str) -> None:
    verdict, ids = judge(line)
    assert (verdict.kind, verdict.code, verdict.sample_id) == (VALID, "", sample_id)
    assert (verdict.tokens, verdict.prompt_tokens, ids) == (3, 4, [1, 2, 99])


def test_end_of_sequence_is_judged_on_stop_alone_and_only_when_known(judge: Judge) -> None:
    cut = _changed(output_ids=[1, 2, 3])
    assert judge(cut)[0].no_eos and judge(cut)[0].kind == VALID
    assert not judge(_changed())[0].no_eos
    assert not judge(_changed(output_ids=[1, 2, 3], finish_reason="length"))[0].no_eos
    for unknown in (judge_for(Rules(1000)), plain_judge(Rules(1000))):
        assert not unknown(cut)[0].no_eos


def test_a_line_too_long_for_any_record(judge: Judge) -> None:
    line = _changed()[:-1] + b" " * MAX_LINE_BYTES + b"}"
    assert judge(line)[0].code == "line-too-long"


def test_another_vocabulary_is_another_verdict() -> None:
    line = json.dumps(response("a", 3)).encode()
    assert judge_for(Rules())(line)[0].kind == VALID
    assert judge_for(Rules(32_000))(line)[0].code == "outside-vocabulary"
    assert read_record(line) is not None
    assert read_record(line, Rules(32_000)) is None
