"""A command line as an operator recognises it: the script's name and its flags, long paths by their ends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from remote.text import clean

_LONG = 28


def short_command(argv: Sequence[str], limit: int = 160) -> str:
    """`run_inference.py --root …/prepared --max-samples 7000` of a whole command line; cleaned, at most `limit` long."""
    words = list(argv)
    if len(words) > 1 and PurePosixPath(words[0]).name.startswith("python"):
        script = next((place for place, word in enumerate(words[1:], 1) if not word.startswith("-")), 1)
        words = [PurePosixPath(words[script]).name, *words[script + 1 :]]
    return clean(" ".join(_short(word) for word in words), limit)


def _short(word: str) -> str:
    flag, equals, value = word.rpartition("=")
    if len(value) <= _LONG or not value.startswith("/"):
        return word
    return f"{flag}{equals}…/{PurePosixPath(value).name}"
