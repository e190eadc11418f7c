"""Secrets in a command line or an address are shown as `***`, wherever either is displayed or kept."""

from __future__ import annotations

import re
from collections.abc import Sequence

MASK = "***"

_NAME = (
    r"(?:api[-_]?key|access[-_]?key|private[-_]?key|auth(?:orization)?|bearer|credentials?"
    r"|pass(?:word|wd|phrase)?|secret|token|key)"
)
_WORD = rf"(?:[\w-]*[-_])?{_NAME}"
_FLAG = re.compile(rf"--?{_WORD}", re.IGNORECASE)
_FLAG_VALUE = re.compile(rf"(--?{_WORD})=(.*)", re.IGNORECASE | re.DOTALL)
_EMBEDDED = re.compile(rf"(?<!\S)(--?{_WORD})([=\s]+)('[^']*'|\"[^\"]*\"|\S+)", re.IGNORECASE)
_ASSIGNMENT = re.compile(rf"((?<![\w-])(?:\w*_)?{_NAME}\s*[=:]\s*)([^\s'\"&;]+)", re.IGNORECASE)
_BEARER = re.compile(r"(\b(?:bearer|basic)\s+)([^\s'\"]+)", re.IGNORECASE)
_KNOWN = re.compile(r"\b(?:sk-|hf_|ghp_|github_pat_|xox[abpr]-|tk_)[A-Za-z0-9_-]{8,}")
_USERINFO = re.compile(r"(\w+://)[^\s/@]+@")
_QUERY = re.compile(rf"([?&]{_NAME}=)[^&#\s]+", re.IGNORECASE)
_NOT_SECRET = re.compile(r"--?(?:eos|bos|pad|unk|stop)[-_]token", re.IGNORECASE)


def masked(argv: Sequence[str]) -> list[str]:
    """A command line with the values of secret flags, known key shapes and addresses' credentials masked."""
    out: list[str] = []
    hide_next = False
    for word in argv:
        if hide_next and not word.startswith("--"):
            out.append(MASK)
            hide_next = False
            continue
        hide_next = _is_secret(word)
        with_value = _FLAG_VALUE.fullmatch(word)
        if with_value and _is_secret(with_value[1]):
            out.append(f"{with_value[1]}={MASK}")
        else:
            out.append(masked_text(word))
    return out


def _is_secret(flag: str) -> bool:
    return _FLAG.fullmatch(flag) is not None and _NOT_SECRET.fullmatch(flag) is None


def masked_text(text: str) -> str:
    """Free text (a word of a command line, a script given to a shell) with what looks like a secret masked."""
    text = _EMBEDDED.sub(lambda m: f"{m[1]}{m[2]}{MASK}" if _is_secret(m[1]) else m[0], text)
    text = _BEARER.sub(rf"\1{MASK}", text)
    text = _ASSIGNMENT.sub(rf"\1{MASK}", text)
    return _KNOWN.sub(MASK, masked_url(text))


def masked_url(url: str) -> str:
    """An address with its user, password and secret query values masked; the rest stays readable."""
    return _QUERY.sub(rf"\1{MASK}", _USERINFO.sub(rf"\1{MASK}@", url))


_HOOK = re.compile(r"(https?://[^/\s]+)(/[^?#\s]*)?.*", re.IGNORECASE | re.DOTALL)


def masked_hook(url: str) -> str:
    """A notification address: the path of a webhook is its secret, so that only the server is shown."""
    match = _HOOK.fullmatch(url.strip())
    if match is None:
        return MASK
    server = masked_url(match[1])
    return server if match[2] in (None, "", "/") else f"{server}/{MASK}"
