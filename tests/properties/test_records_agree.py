"""The typed way through a record and the plain one give the same verdict, whatever the line is."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from remote.acceptance import Answer
from remote.jsonlines import BadJson, strict_loads
from remote.lines import record_line
from remote.prompts import Prompt
from remote.records import UNUSABLE, VALID, Rules, judge_for, plain_judge, read_record

RULES = Rules(vocab_size=1000, eos_ids=frozenset({7, 999}))
FAST = judge_for(RULES)
PLAIN = plain_judge(RULES)

token = st.integers(0, 999)
odd_token = st.one_of(
    st.integers(-3, 1003),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=3),
    st.lists(token, max_size=2),
    st.integers(2**53 - 1, 2**70),
)


def mostly(good: st.SearchStrategy[Any], odd: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Good values three times in four: else hardly a record would have only one fault."""
    return st.integers(0, 3).flatmap(lambda roll: good if roll else odd)


ids = mostly(
    st.lists(token, min_size=1, max_size=12), st.one_of(st.lists(odd_token, max_size=5), st.text(max_size=8), st.none())
)
sample_id = mostly(
    st.one_of(st.text(max_size=8), st.integers(), st.sampled_from(['a"[b', "a\\", "{"])),
    st.one_of(st.booleans(), st.none(), st.floats(allow_nan=False)),
)
finish = mostly(
    st.sampled_from(["stop", "length"]),
    st.one_of(
        st.sampled_from(["abort", "tool_calls", ""]),
        st.none(),
        st.fixed_dictionaries({"type": st.sampled_from(["stop", "length", "abort", None, 1])}),
        st.just({}),
        st.integers(),
    ),
)
count = mostly(st.integers(0, 13), st.one_of(st.none(), st.booleans(), st.floats(0, 13), st.text(max_size=2)))


@st.composite
def records(draw: st.DrawFn) -> bytes:
    output_ids = draw(ids)
    right = len(output_ids) if isinstance(output_ids, list) else 0
    record = {
        "sample_id": draw(sample_id),
        "output_ids": output_ids,
        "prompt_tokens": draw(count),
        "completion_tokens": draw(mostly(st.just(right), count)),
        "finish_reason": draw(finish),
    }
    for key in draw(st.lists(st.sampled_from(list(record)), max_size=1)):
        if draw(st.integers(0, 3)) == 0:
            del record[key]
    if draw(st.integers(0, 4)) == 0:
        record[draw(st.text(max_size=4))] = draw(st.one_of(st.integers(), st.text(max_size=4), st.lists(token)))
    items = list(record.items())
    if draw(st.integers(0, 5)) == 0:
        items.append(draw(st.sampled_from(items)))  # a repeated key
    if draw(st.booleans()):
        items = draw(st.permutations(items))
    ascii_only = draw(st.booleans())
    separator = draw(st.sampled_from([",", ", ", " ,\t"]))
    body = separator.join(
        f"{json.dumps(key, ensure_ascii=ascii_only)}:{json.dumps(value, ensure_ascii=ascii_only)}"
        for key, value in items
    )
    return f"{{{body}}}".encode("utf-8", "surrogatepass")


PIECES = [
    b"NaN", b"-Infinity", b"1e999", b"1.0", b"1e2", b"true", b"null", b"-0", b"007", b"9" * 30, b"9" * 5000,
    b"[", b"]", b"{", b"}", b'"', b",", b":", b"\\", b"\\u0064", b"\\ud800", b"\\ud83d\\ude00", b"\xff", b"\xed\xa0\x80",
    b"\xef\xbb\xbf", b"\r", b"\x00", b"\x0b", b" ", b'"sample_id":1,', b'"output_ids":[1],', b"[" * 150, b"{\"a\":" * 250,
]  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    line = draw(records())
    for _ in range(draw(mostly(st.just(0), st.integers(1, 3)))):
        at = draw(st.integers(0, len(line)))
        to = min(len(line), at + draw(st.integers(0, 4)))
        line = line[:at] + draw(st.one_of(st.sampled_from(PIECES), st.binary(max_size=2))) + line[to:]
    return line.replace(b"\n", b" ")


@settings(max_examples=500, deadline=None)
@given(mutated())
def test_both_ways_agree(line: bytes) -> None:
    assert FAST(line) == PLAIN(line)


@settings(max_examples=200, deadline=None)
@given(mutated())
def test_usable_means_strict_json_with_integer_ids_in_the_vocabulary(line: bytes) -> None:
    verdict, output_ids = FAST(line)
    try:
        value = strict_loads(line)
    except BadJson:
        assert verdict.kind == UNUSABLE
        return
    if verdict.kind == UNUSABLE:
        return
    assert value["output_ids"] == output_ids
    assert all(type(one) is int and 0 <= one < 1000 for one in output_ids)
    assert verdict.tokens == len(output_ids) > 0
    assert verdict.sample_id == str(value["sample_id"])
    assert verdict.finish != "abort"
    record = read_record(line, RULES)
    assert record is not None and record.output_ids == output_ids


@settings(max_examples=100, deadline=None)
@given(
    st.one_of(st.text(max_size=10).filter(lambda text: text.encode("utf-8", "ignore").decode() == text), st.integers()),
    st.lists(token, min_size=1, max_size=20),
    st.integers(0, 10**6),
    st.sampled_from(["stop", "length"]),
)
def test_what_we_write_is_valid_and_reads_back(one: str | int, output_ids: list[int], prompt: int, word: str) -> None:
    line = record_line(Prompt(one, str(one), "prompt"), Answer(output_ids, prompt, word, None, None))
    verdict, read = FAST(line)
    assert verdict.kind == VALID and read == output_ids
    assert (verdict.sample_id, verdict.prompt_tokens, verdict.finish) == (str(one), prompt, word)
    assert strict_loads(line)["sample_id"] == one
    assert verdict.no_eos == (word == "stop" and output_ids[-1] not in RULES.eos_ids)
