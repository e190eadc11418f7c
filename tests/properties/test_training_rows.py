"""Rows are made of text, never of numbers: whatever the spelling of a record, its row says what the record says."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from remote.records import UNUSABLE, Rules, judge_for
from remote.rows import check_row
from remote.training_rows import output_text, row_line

IDS = st.lists(st.integers(0, 163_839), min_size=1, max_size=60)
SAMPLE_IDS = st.one_of(st.text(max_size=12), st.integers(-(10**6), 10**15))
SEPARATORS = st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " : "), (",  ", ":\t")])


@given(IDS, IDS, SAMPLE_IDS, SEPARATORS, st.permutations(range(5)), st.booleans(), st.booleans())
def test_any_spelling_of_a_record_gives_the_same_row(
    prompt: list[int],
    outputs: list[int],
    sample_id: str | int,
    separators: tuple[str, str],
    order: list[int],
    ascii_only: bool,
    nested: bool,
) -> None:
    fields: list[tuple[str, object]] = [
        ("sample_id", sample_id),
        ("output_ids", outputs),
        ("prompt_tokens", len(prompt)),
        ("completion_tokens", len(outputs)),
        ("finish_reason", {"type": "stop", "output_ids": [1, 2]} if nested else "stop"),
    ]
    line = json.dumps(dict(fields[place] for place in order), separators=separators, ensure_ascii=ascii_only).encode()
    verdict, ids = judge_for(Rules())(line)
    assert verdict.kind != UNUSABLE
    row = row_line(sample_id, prompt, output_text(line, ids), len(ids))
    assert json.loads(row) == {
        "sample_id": sample_id,
        "input_ids": prompt + outputs,
        "loss_mask": [0] * len(prompt) + [1] * len(outputs),
    }
    assert row == json.dumps(json.loads(row), separators=(",", ":")).encode() + b"\n"
    assert check_row(row[:-1]) == ("", str(sample_id))


@given(st.binary(max_size=40), IDS)
def test_a_list_inside_a_strange_id_is_never_taken_for_the_answer(noise: bytes, outputs: list[int]) -> None:
    """An id that spells the beginning of a record, brackets included, does not mislead the slicing."""
    text = noise.decode("latin-1") + '","output_ids":[7,7],"x":"'
    record = {"sample_id": text, "output_ids": outputs, "completion_tokens": len(outputs), "finish_reason": "stop"}
    line = json.dumps(record).encode()
    verdict, ids = judge_for(Rules())(line)
    assert verdict.sample_id == text
    assert output_text(line, ids) == ",".join(map(str, outputs)).encode()


def test_minus_zero_is_written_as_zero() -> None:
    """JSON's one other spelling of a whole number of ours."""
    line = b'{"sample_id":"a","output_ids":[-0, 1],"prompt_tokens":1,"completion_tokens":2,"finish_reason":"stop"}'
    verdict, ids = judge_for(Rules())(line)
    assert verdict.kind != UNUSABLE
    assert output_text(line, ids) == b"0,1"
