"""This very program in a process of its own, for work that must complete whatever becomes of who asked for it.

The agent has threads, and a process with threads must not fork without exec: so it runs a command of this program,
with the settings over stdin (secrets are never in an argv), and reads one JSON object back.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.layout import Layout
from remote.release import archive_path, durable_archive
from remote.text import clean


def program(layout: Layout) -> str:
    """The path of this program as a zip that stays while runs use it, below `.eagle3/`.

    Raises OperatorError `not-writable`.
    """
    try:
        return str(durable_archive(layout.make_state() / "program"))
    except OSError as error:
        raise OperatorError(
            "not-writable",
            f"cannot write {clean(layout.state)}: {error.strerror}",
            "check that the root exists, is writable and has space",
            ExitCode.DISK,
        ) from None


def own_command(layout: Layout) -> list[str]:
    """This very program, in an interpreter of its own and from a file that stays.

    On a full disk a stop must still work: then it runs from where it is now, which serves as long
    as nobody replaces it meanwhile. Raises OperatorError when it is nowhere but in memory.
    """
    python = [sys.executable, "-I", "-B"]
    try:
        return [*python, program(layout)]
    except OperatorError:
        if archive_path() is None:
            source = str(Path(__file__).resolve().parent.parent)
            return [
                *python,
                "-c",
                f"import sys; sys.path.insert(0, {source!r}); from remote.cli import main; sys.exit(main())",
            ]
        raise


def run_detached(
    argv: Sequence[str], settings: Mapping[str, Any], timeout_s: float, timeout_code: str, timeout_remedy: str
) -> dict[str, Any]:
    """Run a command of ours in a session of its own, settings on stdin, one JSON object back on stdout.

    It carries on when the caller dies. Raises OperatorError: its own error, or `timeout_code`.
    """
    try:
        child = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            cwd="/",
        )
    except OSError as error:
        raise OperatorError(
            "cannot-start",
            f"cannot start {clean(argv[0])}: {error.strerror}",
            "free processes and memory on the container",
        ) from None
    try:
        out, err = child.communicate(json.dumps(settings).encode(), timeout_s)
    except subprocess.TimeoutExpired:
        # Not killed: what it does must complete; it only has nobody to tell any more.
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
        raise OperatorError(timeout_code, f"no answer within {timeout_s:.0f} s", timeout_remedy) from None
    try:
        answer = json.loads(out)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        said = clean(err.decode("utf-8", "replace").strip() or f"exit code {child.returncode}", 500)
        raise OperatorError(
            "helper-failed",
            f"this program's helper on the container failed: {said}",
            "see that Python and /proc work there",
        )
    if isinstance(answer.get("error"), dict):
        raise OperatorError.from_json(answer["error"])
    return answer
