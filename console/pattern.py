"""A regular expression from an operator: compiled, or refused with a reason, so that a search always ends."""

from __future__ import annotations

import re

from remote.errors import OperatorError
from remote.text import clean

MAX_LENGTH = 200


def compile_pattern(text: str) -> re.Pattern[str]:
    """Compile a search; letters match both cases unless one of them is a capital. Raises OperatorError.

    A repeat of something that itself repeats or alternates (`(a+)+`, `(a|aa)*`) can take longer
    than the night on a line that nearly matches, and Python's matching cannot be interrupted.
    """
    if len(text) > MAX_LENGTH:
        raise OperatorError("bad-search", f"the search is longer than {MAX_LENGTH} characters", "search for less")
    if _repeats_a_repeat(text):
        raise OperatorError("bad-search", f"{clean(text, 60)!r} repeats a repeat and may never end", "write it without")
    try:
        return re.compile(text, 0 if any(char.isupper() for char in text) else re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        raise OperatorError(
            "bad-search",
            f"{clean(text, 60)!r} is no regular expression: {clean(error, 80)}",
            "write \\ before ( [ * + ?",
        ) from None


def _repeats_a_repeat(text: str) -> bool:
    """Whether a group that holds a repeat or an alternative is itself repeated."""
    stack: list[bool] = []
    at, in_class = 0, False
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 2
            continue
        if in_class:
            in_class = char != "]" or text[at - 1] == "["
        elif char == "[":
            in_class = True
        elif char == "(":
            stack.append(False)
        elif char == ")":
            risky = stack.pop() if stack else False
            repeated = text[at + 1 : at + 2] in ("*", "+", "{") and bool(text[at + 1 : at + 2])
            if risky and repeated:
                return True
            if stack and (risky or repeated):
                stack[-1] = True
        elif stack and char in "*+|{":
            stack[-1] = True
        at += 1
    return False
