"""The script behind a command line: where it lies, what it is (digest, age), and what its text gives away.

Scripts are outside text of unknown size: read bounded, kept by file identity, never run.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import PurePath

from remote.layout import RESPONSES
from remote.text import clean

_MAX_BYTES = 4 << 20
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*[a-z]*")
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh", "fish"})
_WITH_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})
_INFERENCE = re.compile(r"infer|generat|respons|answer", re.IGNORECASE)


@dataclass(frozen=True)
class Script:
    """A script: `digest` is its SHA-256 in hexadecimal, `mtime` Unix seconds; None where it cannot be read.

    What runs is what was read at the start: a file changed since then is told by `mtime` against
    the process's own start.
    """

    path: str | None
    digest: str | None
    mtime: float | None
    text: str | None = field(default=None, repr=False, compare=False)

    @property
    def knows_token_budget(self) -> bool | None:
        """Whether its text mentions the flag; None when it cannot be read."""
        return None if self.text is None else "--token-budget" in self.text or "--token_budget" in self.text

    @property
    def writes_answers(self) -> bool | None:
        """Whether its text speaks of the file of answers; None when it cannot be read."""
        return None if self.text is None else RESPONSES in self.text or "raw_responses" in self.text

    @property
    def named_like_inference(self) -> bool:
        """All that is left to go by when the text cannot be read."""
        return self.path is not None and _INFERENCE.search(PurePath(self.path).name) is not None

    def mentions(self, root: str) -> bool:
        """Whether the root stands in its text, as a default for example."""
        return self.text is not None and root in self.text


def is_shell(word: str) -> bool:
    """Whether a command is a shell (a login shell's `-bash` too)."""
    return PurePath(word.lstrip("-")).name in _SHELLS


def may_run_python(argv: list[str]) -> bool:
    """Whether a command line is worth a closer look: Python, or something that is given a `.py`."""
    return bool(argv) and (
        _PYTHON.fullmatch(PurePath(argv[0]).name) is not None or any(word.endswith(".py") for word in argv[1:])
    )


def script_of(argv: list[str], cwd: str | None) -> tuple[str | None, str | None]:
    """`(path, code)` of what a Python command line runs: a script's absolute path, or the text after `-c`.

    `(None, None)` for anything that is not Python running a script. A launcher before the script
    (`torchrun`, `uv run`) is passed over: the first word that ends in `.py` counts.
    """
    if not argv:
        return None, None
    if _PYTHON.fullmatch(PurePath(argv[0]).name) is None:
        found = next((word for word in argv[1:] if word.endswith(".py")), None)
        python_follows = not is_shell(argv[0]) and found is not None
        return (_absolute(found, cwd), None) if python_follows and found is not None else (None, None)
    words = iter(argv[1:])
    for word in words:
        if word == "-c":
            return None, next(words, "")
        if word == "-m":
            module = next(words, "")
            return _module(module, cwd), None
        if word in _WITH_VALUE:
            next(words, None)
        elif not word.startswith("-"):
            return _absolute(word, cwd), None
    return None, None


def _absolute(word: str, cwd: str | None) -> str:
    return os.path.normpath(os.path.join(cwd or "/", word))


def _module(name: str, cwd: str | None) -> str | None:
    """The file of `python -m name` as far as the working directory tells; ours has its own marks."""
    if not name or name.split(".")[0] == "remote":
        return None
    return _absolute(name.replace(".", "/") + ".py", cwd)


def read_script(path: str | None, code: str | None = None) -> Script | None:
    """What there is to know about a script, or None where there is none."""
    if code is not None:
        return Script(None, hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest(), None, code)
    if path is None:
        return None
    try:
        found = os.stat(path)
    except OSError:
        return Script(clean(path, 500), None, None)
    if not stat.S_ISREG(found.st_mode):
        # A shell may read its script from a pipe: opening that would wait for ever, or take its words away.
        return Script(clean(path, 500), None, None)
    return _read(path, found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)


@functools.lru_cache(maxsize=64)
def _read(path: str, _dev: int, _ino: int, mtime_ns: int, size: int) -> Script:
    shown, mtime = clean(path, 500), mtime_ns / 1e9
    if size > _MAX_BYTES:
        return Script(shown, None, mtime)
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_BYTES)
    except OSError:
        return Script(shown, None, mtime)
    text = None if b"\0" in data else data.decode("utf-8", "replace")
    return Script(shown, hashlib.sha256(data).hexdigest(), mtime, text)
