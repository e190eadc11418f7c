"""One line of `prompts.jsonl`: which of the four prompt forms it has, and the prompt itself.

All text forms end as chat messages; a prompt that is already tokenized keeps its ids. A
trailing assistant turn is the source's own answer: it is left out of the prompt and flagged.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from remote.errors import OperatorError
from remote.jsonlines import BadJson, is_blank, lines, strict_loads
from remote.records import id_text
from remote.text import clean

FORMS = ("messages", "conversations", "prompt", "input_ids")

SHAREGPT_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "assistant": "assistant",
    "model": "assistant",
    "function_call": "assistant",
    "system": "system",
    "tool": "tool",
    "tool_response": "tool",
    "observation": "tool",
    "function": "tool",
    "function_response": "tool",
}
"""ShareGPT's `from` to the role of a chat message."""

Message = dict[str, Any]


@dataclass(frozen=True)
class Prompt:
    """A usable prompt.

    `sample_id` is as the file has it, `key` is the same as text (ids are compared as text);
    exactly one of `messages` and `input_ids` is filled; `tools` goes to the chat template;
    `offset` is the line's first byte in the file.
    """

    sample_id: str | int
    key: str
    form: str
    messages: list[Message] | None = None
    tools: list[Any] | None = None
    input_ids: list[int] | None = None
    trailing_assistant: bool = False
    offset: int = 0


class PromptVerdict(NamedTuple):
    """What one line is; of a line that is not usable `code` says why."""

    usable: bool
    code: str = ""
    key: str | None = None
    form: str | None = None
    trailing_assistant: bool = False


class BadPrompt(ValueError):
    """The line is no prompt; `code` says why, `key` is its id where it has one."""

    def __init__(self, code: str, key: str | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.key = key


def check_prompt(line: bytes) -> PromptVerdict:
    """The verdict on one line that is not blank."""
    try:
        prompt = parse_prompt(line)
    except BadPrompt as error:
        return PromptVerdict(False, error.code, error.key)
    return PromptVerdict(True, "", prompt.key, prompt.form, prompt.trailing_assistant)


def parse_prompt(line: bytes, offset: int = 0) -> Prompt:
    """The prompt of one line. Raises BadPrompt."""
    try:
        value = strict_loads(line)
    except BadJson as error:
        raise BadPrompt(error.code) from None
    if not isinstance(value, dict):
        raise BadPrompt("not-an-object")
    sample_id = value.get("sample_id")
    key = id_text(sample_id)
    if key is None or sample_id is None:
        raise BadPrompt("no-sample-id")
    forms = [form for form in FORMS if value.get(form) is not None]
    if len(forms) != 1:
        raise BadPrompt("several-prompt-forms" if forms else "no-prompt-form", key)
    form = forms[0]
    try:
        if form == "input_ids":
            return Prompt(sample_id, key, form, input_ids=_token_ids(value[form]), offset=offset)
        messages = _READERS[form](value[form])
        tools = _tools(value.get("tools"))
    except BadPrompt as error:
        raise BadPrompt(error.code, key) from None
    turns = len(messages)
    while messages and messages[-1]["role"] == "assistant":
        messages.pop()
    if not messages:
        raise BadPrompt("no-turn-to-answer", key)
    return Prompt(sample_id, key, form, messages, tools, None, len(messages) < turns, offset)


def read_prompts(path: Path) -> Iterator[Prompt]:
    """The usable prompts of a file, in file order, the first of each id.

    Bad and repeated lines are passed over: the scan has counted and named them. A last line
    without newline counts when it is whole. Raises OperatorError when the file cannot be read.
    """
    seen: set[str] = set()
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            for offset, line in lines(fd):
                if is_blank(line):
                    continue
                try:
                    prompt = parse_prompt(line, offset)
                except BadPrompt:
                    continue
                if prompt.key not in seen:
                    seen.add(prompt.key)
                    yield prompt
        finally:
            os.close(fd)
    except OSError as error:
        raise OperatorError(
            "prompts-unreadable",
            f"{clean(path)} cannot be read: {error.strerror}",
            "check its owner and permissions",
        ) from error


def _messages(value: Any) -> list[Message]:
    if not isinstance(value, list) or not value:
        raise BadPrompt("bad-messages")
    for message in value:
        if not isinstance(message, dict):
            raise BadPrompt("bad-messages")
        role = message.get("role")
        if not isinstance(role, str) or not role:
            raise BadPrompt("bad-role")
        if not _is_content(message.get("content"), bool(message.get("tool_calls"))):
            raise BadPrompt("bad-content")
    return value


def _is_content(content: Any, calls_tools: bool) -> bool:
    if isinstance(content, str):
        return True
    if content is None:
        return calls_tools
    return isinstance(content, list) and all(isinstance(part, dict) and "type" in part for part in content)


def _conversations(value: Any) -> list[Message]:
    if not isinstance(value, list) or not value:
        raise BadPrompt("bad-conversations")
    messages: list[Message] = []
    for turn in value:
        if not isinstance(turn, dict) or not isinstance(turn.get("value"), str):
            raise BadPrompt("bad-conversations")
        origin = turn.get("from")
        role = SHAREGPT_ROLES.get(origin) if isinstance(origin, str) else None
        if role is None:
            raise BadPrompt("bad-role")
        messages.append({"role": role, "content": turn["value"]})
    return messages


def _text(value: Any) -> list[Message]:
    if not isinstance(value, str) or not value:
        raise BadPrompt("bad-prompt-text")
    return [{"role": "user", "content": value}]


_READERS = {"messages": _messages, "conversations": _conversations, "prompt": _text}


def _token_ids(value: Any) -> list[int]:
    if not isinstance(value, list) or not value or set(map(type, value)) != {int} or min(value) < 0:
        raise BadPrompt("bad-input-ids")
    return value


def _tools(value: Any) -> list[Any] | None:
    """Tools as a list; ShareGPT-style sources keep them as the text of one."""
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else None
        except (ValueError, RecursionError):
            raise BadPrompt("bad-tools") from None
    if value is None or value == []:
        return None
    if not isinstance(value, list) or not all(isinstance(tool, dict) for tool in value):
        raise BadPrompt("bad-tools")
    return value
