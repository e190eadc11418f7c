"""The Python that runs generate and retokenize: the one that was asked for, else the first that has what they need.

Looking for a library does not import it (`find_spec`), so that asking half a dozen interpreters
takes a second or two and not minutes; whether the tokenizer really loads is for the preflight.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys

from remote.errors import OperatorError
from remote.options import Options
from remote.probe_python import NEEDED, OLDEST

LIMIT_S = 15.0
PLACES = (
    "/opt/conda/bin/python3",
    "/venv/main/bin/python3",
    "/opt/venv/bin/python3",
    "/usr/local/bin/python3",
    "/usr/bin/python3",
)

_ASK = f"""\
import sys
if sys.version_info < {OLDEST!r}:
    sys.exit("is older than {".".join(map(str, OLDEST))}")
from importlib.util import find_spec
lacks = [name for name in {NEEDED!r} if find_spec(name) is None]
sys.exit("lacks " + ", ".join(lacks) if lacks else 0)
"""


def choose_python(options: Options) -> str:
    """A path to run. `--python` is taken as given: if it does not work, it is that which must be said.

    Raises OperatorError `no-python` that names what was tried and the command that would help.
    """
    if options.python:
        return options.python
    return _first_that_works(tuple(_candidates()))


@functools.lru_cache(maxsize=4)
def _first_that_works(candidates: tuple[str, ...]) -> str:
    faults = []
    for path in candidates:
        fault = _fault(path)
        if not fault:
            return path
        faults.append(f"{path} {fault}")
    raise OperatorError(
        "no-python",
        f"no Python on the container can run the generator: {'; '.join(faults)}",
        f"{candidates[0]} -m pip install {' '.join(NEEDED)}, or name another by --python",
    )


def _candidates() -> list[str]:
    """Ours first, then what a login would find, then the usual places; each file once."""
    named = [sys.executable, shutil.which("python3"), shutil.which("python"), *PLACES]
    found: dict[str, str] = {}
    for path in named:
        if path and os.access(path, os.X_OK):
            # A virtual environment's python is a link to the system's and yet another one: no realpath.
            found.setdefault(os.path.abspath(path), path)
    return list(found)


def _fault(path: str) -> str:
    """What keeps this interpreter from running the generator; empty when nothing does."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "PYTHONPATH")}
    try:
        done = subprocess.run(
            [path, "-B", "-c", _ASK],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return f"did not answer within {LIMIT_S:g} s"
    except OSError as error:
        return f"cannot be started ({error.strerror})"
    if done.returncode == 0:
        return ""
    said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return said if done.returncode == 1 and said else f"failed with exit code {done.returncode}"
