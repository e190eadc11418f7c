"""Text from outside at its worst, put wherever text from outside can stand."""

from __future__ import annotations

from typing import Any

ESCAPES = "\x1b[2J\x1b]0;owned\x07\x1b[31m\x9b5m\x1bPq\x1b\\"
MARKUP = "[/foo] [bold red]x[/] [link=http://a]b[/link] $error {x}"
TRICKS = "a\u202eb\u2066c\u200d\u0301\r\n\x00\x08\x7f\tend"
WIDE = "漢字かな🚀👩‍👩‍👧é"
LONG = "L" * 1_000_000
NASTY = f"{MARKUP}{ESCAPES}{TRICKS}{WIDE}"

MARK = "owned"
"""Shown as text somewhere when the test works at all."""


def poisoned(value: Any, text: str = NASTY) -> Any:
    """A snapshot or an answer with `text` in every free text; what steers the screens keeps its meaning."""
    if isinstance(value, dict):
        return {key: value[key] if key in _STEERS else poisoned(value[key], text) for key in value}
    if isinstance(value, list):
        return [poisoned(item, text) for item in value]
    return text if isinstance(value, str) else value


_STEERS = frozenset(
    {
        "state",
        "kind",
        "verdict",
        "health",
        "decision",
        "level",
        "identity",
        "id",
        "name",
        "outcome",
        "options",
        "lengths",
    }
)
