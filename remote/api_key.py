"""The engine's API key as a file holds it."""

from __future__ import annotations

from remote.errors import OperatorError
from remote.text import clean


def read_api_key(path: str) -> str:
    """The key in a file: its first line. Raises OperatorError; never shows what is in the file."""
    try:
        with open(path, encoding="utf-8") as file:
            key = file.readline().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise OperatorError(
            "no-api-key", f"--api-key-file {clean(path)} cannot be read: {why}", "give a file on the container"
        ) from None
    if not key or not key.isascii() or not key.isprintable():
        raise OperatorError(
            "no-api-key", f"--api-key-file {clean(path)} holds no key in its first line", "write the key there, alone"
        )
    return key
