"""The four prompt forms, trailing assistant turns, and what is no prompt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from remote.errors import OperatorError
from remote.problems import MEANINGS
from remote.prompts import check_prompt, parse_prompt, read_prompts
from tests.support.tree import line, prompt

USER = {"role": "user", "content": "hello"}
MINE = {"role": "assistant", "content": "mine"}
TOOLS = [{"type": "function", "function": {"name": "f"}}]


def _line(**value: Any) -> bytes:
    return json.dumps({"sample_id": "a", **value}).encode()


def test_messages_keep_what_the_template_may_want() -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}], "reasoning_content": "r"}
    reply = {"role": "tool", "tool_call_id": "1", "content": "42"}
    parts = {"role": "user", "content": [{"type": "text", "text": "look"}]}
    system = {"role": "system", "content": "be brief"}
    read = parse_prompt(_line(messages=[system, parts, call, reply], tools=TOOLS), offset=12)
    assert (read.sample_id, read.key, read.form, read.offset) == ("a", "a", "messages", 12)
    assert read.messages == [system, parts, call, reply] and read.tools == TOOLS
    assert read.input_ids is None and not read.trailing_assistant


@pytest.mark.parametrize(
    ("origin", "role"),
    [
        ("human", "user"), ("user", "user"), ("gpt", "assistant"), ("assistant", "assistant"), ("system", "system"),
        ("tool", "tool"), ("observation", "tool"), ("function", "tool"), ("function_call", "assistant"),
    ],
)  # fmt: skip
def test_sharegpt_roles(origin: str, role: str) -> None:
    read = parse_prompt(_line(conversations=[{"from": origin, "value": "x"}, {"from": "human", "value": "y"}]))
    assert read.messages == [{"role": role, "content": "x"}, {"role": "user", "content": "y"}]


def test_text_and_ids() -> None:
    assert parse_prompt(_line(prompt="hello")).messages == [USER]
    read = parse_prompt(_line(input_ids=[5, 6], sample_id=7))
    assert (read.input_ids, read.messages, read.sample_id, read.key) == ([5, 6], None, 7, "7")


def test_forms_that_are_null_are_not_there() -> None:
    assert parse_prompt(_line(prompt="hello", messages=None, tools=None)).form == "prompt"


def test_tools_kept_as_text() -> None:
    assert parse_prompt(_line(messages=[USER], tools=json.dumps(TOOLS))).tools == TOOLS
    assert parse_prompt(_line(messages=[USER], tools="")).tools is None


@pytest.mark.parametrize("turns", [1, 2])
def test_trailing_assistant_turns_are_left_out_and_flagged(turns: int) -> None:
    read = parse_prompt(_line(messages=[USER, MINE, USER, *[MINE] * turns]))
    assert read.messages == [USER, MINE, USER] and read.trailing_assistant
    shared = parse_prompt(_line(conversations=[{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]))
    assert shared.messages == [{"role": "user", "content": "q"}] and shared.trailing_assistant


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"{", "bad-json"),
        (b"[]", "not-an-object"),
        (json.dumps({"prompt": "x"}).encode(), "no-sample-id"),
        (_line(sample_id=True, prompt="x"), "no-sample-id"),
        (_line(), "no-prompt-form"),
        (_line(text="x"), "no-prompt-form"),
        (_line(prompt="x", messages=[USER]), "several-prompt-forms"),
        (_line(prompt=""), "bad-prompt-text"),
        (_line(prompt=["x"]), "bad-prompt-text"),
        (_line(messages=[]), "bad-messages"),
        (_line(messages="x"), "bad-messages"),
        (_line(messages=["x"]), "bad-messages"),
        (_line(messages=[{"content": "x"}]), "bad-role"),
        (_line(messages=[{"role": 1, "content": "x"}]), "bad-role"),
        (_line(messages=[{"role": "user"}]), "bad-content"),
        (_line(messages=[{"role": "user", "content": 5}]), "bad-content"),
        (_line(messages=[{"role": "user", "content": ["x"]}]), "bad-content"),
        (_line(messages=[MINE]), "no-turn-to-answer"),
        (_line(conversations=[{"from": "alien", "value": "x"}]), "bad-role"),
        (_line(conversations=[{"from": ["human"], "value": "x"}]), "bad-role"),
        (_line(conversations=[{"from": "human"}]), "bad-conversations"),
        (_line(conversations=[]), "bad-conversations"),
        (_line(input_ids=[]), "bad-input-ids"),
        (_line(input_ids=[1, True]), "bad-input-ids"),
        (_line(input_ids=[1.0]), "bad-input-ids"),
        (_line(input_ids=[-1]), "bad-input-ids"),
        (_line(input_ids="1 2"), "bad-input-ids"),
        (_line(messages=[USER], tools="{"), "bad-tools"),
        (_line(messages=[USER], tools=["f"]), "bad-tools"),
    ],
)
def test_what_is_no_prompt(text: bytes, code: str) -> None:
    verdict = check_prompt(text)
    assert (verdict.usable, verdict.code) == (False, code)
    assert code in MEANINGS


def test_reading_a_file(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    first, second = line(prompt("a")), line(prompt(2))
    path.write_bytes(
        b"\xef\xbb\xbf" + first + b"\r\n\nbad\n" + second + line(prompt("2")) + line(prompt("c\u2028"))[:-1]
    )
    read = list(read_prompts(path))
    assert [one.key for one in read] == ["a", "2", "c\u2028"]
    assert read[1].offset == len(b"\xef\xbb\xbf" + first + b"\r\n\nbad\n")


def test_a_file_that_cannot_be_read_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="cannot be read"):
        list(read_prompts(tmp_path / "none.jsonl"))
    with pytest.raises(OperatorError, match="cannot be read"):
        list(read_prompts(tmp_path))
