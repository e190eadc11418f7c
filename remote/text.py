"""The one cleaner of outside text: nothing read from a file, a process or an engine reaches a terminal raw."""

from __future__ import annotations

import unicodedata

_KEPT = {"\t": " ", "\n": "⏎", "\r": "␍"}
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_REPLACEMENT = "�"


def clean(text: object, limit: int = 200) -> str:
    """One printable line made of outside text, at most `limit` characters long.

    Control characters (escape sequences included), bidirectional overrides, zero-width and
    unassigned characters, surrogates and line separators are replaced by a visible mark; a
    longer text ends in `…`. Combining marks are kept only after a base character. Takes
    anything: bytes are decoded as UTF-8 with replacement, other values by `str`.
    """
    if isinstance(text, bytes):
        text = text[: limit * 4 + 4].decode("utf-8", "replace")
    elif not isinstance(text, str):
        text = str(text)
    if len(text) <= limit and text.isascii() and text.isprintable():
        return text  # what nearly everything is
    cut = len(text) > limit
    out: list[str] = []
    for char in text[:limit]:
        if " " <= char <= "~":
            out.append(char)
            continue
        kept = _KEPT.get(char)
        if kept is not None:
            out.append(kept)
            continue
        category = unicodedata.category(char)
        if category[0] == "C" or category in ("Zl", "Zp") or char in _BIDI:
            out.append(_REPLACEMENT)
        elif category == "Zs":
            out.append(" ")
        elif category in ("Mn", "Me", "Mc") and (not out or out[-1] in (" ", _REPLACEMENT)):
            out.append(_REPLACEMENT)
        else:
            out.append(char)
    if cut:
        out[-1:] = ["…"]
    return "".join(out)


def clean_lines(text: str, limit: int = 500) -> list[str]:
    """Outside text of several lines, each cleaned on its own; split at newline alone."""
    return [clean(line.rstrip("\r"), limit) for line in text.split("\n")]
