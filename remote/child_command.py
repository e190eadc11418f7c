"""This program once more, as a child of the agent: what needs libraries that the agent's own Python may lack."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from remote.errors import OperatorError
from remote.options import Options
from remote.probe_python import code_path, end_child
from remote.text import clean
from remote.tokenizing import option_words

_MAX_SAID = 400


def program_of(python: str) -> tuple[list[str], dict[str, str]]:
    """The words that run this program with another Python, and the environment it needs for that.

    Without `-I`: that Python's own site-packages, a user's among them, hold the libraries. A zip
    held in memory is reached through our `/proc/PID/fd`, because the child does not inherit it.
    """
    code = code_path()
    if code.startswith("/proc/self/"):
        code = f"/proc/{os.getpid()}/{code.removeprefix('/proc/self/')}"
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "PYTHONPATH")}
    if Path(code).is_dir():
        environment["PYTHONPATH"] = code
        return [python, "-B", "-m", "remote"], environment
    return [python, "-B", code], environment


def run_child(python: str, words: Sequence[str], options: Options, limit_s: float) -> dict[str, Any]:
    """Run one of our commands with `--json` and return the object it printed.

    The child leads its own session and goes on when the agent ends. Raises OperatorError: what it
    said on stderr in one line, `timeout` after `limit_s` (it is killed then), `cannot-start`.
    """
    program, environment = program_of(python)
    # An address to post to is a secret, and an argv is read by everybody.
    argv = [*program, *words, *option_words(replace(options, notify=())), "--json"]
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=environment,
        )
    except OSError as error:
        raise OperatorError(
            "cannot-start", f"cannot start {clean(python)}: {error.strerror}", "name another by --python"
        ) from None
    try:
        out, err = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        end_child(child)
        raise OperatorError(
            "timeout", f"{words[0]} took longer than {limit_s:g} s", "try again when the container is idle"
        ) from None
    try:
        value = json.loads(out)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise OperatorError(f"{words[0]}-failed", _last_words(words[0], err, child.returncode))
    return value


def _last_words(word: str, err: bytes, code: int) -> str:
    said = err.decode("utf-8", "replace").strip().rpartition("\n")[2]
    said = said.removeprefix("eagle3-remote: ")
    return clean(said, _MAX_SAID) if said else f"{word} failed with exit code {code}"
