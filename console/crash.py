"""What is printed when the console itself fails: where, without the values of any variable."""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping

from remote.text import clean

SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSPHRASE")


def crash_text(error: BaseException, environment: Mapping[str, str] | None = None) -> str:
    """The places of a traceback and the error's own line, cleaned, with known secrets masked. No locals."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = ["eagle3-console failed; nothing on the container was touched by this."]
    lines += [f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames[-12:]]
    lines.append(f"{type(error).__name__}: {masked(clean(error, 400), environment)}")
    lines.append("Please report these lines. The process on the container runs on.")
    return "\n".join(lines)


def masked(text: str, environment: Mapping[str, str] | None = None) -> str:
    """`text` without the values of environment variables that are secrets by their name."""
    environment = os.environ if environment is None else environment
    for name, value in environment.items():
        if len(value) >= 6 and any(word in name.upper() for word in SECRET_WORDS):
            text = text.replace(value, "***")
    return text
