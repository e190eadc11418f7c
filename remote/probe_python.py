"""What the Python that will run `generate` can do: its version, its libraries, whether the tokenizer loads.

`probe_python` runs that interpreter as a child with a deadline; `main` is what runs there. Loading
a tokenizer takes seconds and a hundred megabytes, which the agent must not take.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from remote.errors import OperatorError
from remote.fingerprint import Fingerprint
from remote.options import Options
from remote.release import archive_path
from remote.text import clean

LIMIT_S = 60.0
NEEDED = ("transformers", "httpx", "jinja2")
"""What generate and retokenize cannot do without; the tokenizer's own needs are found by loading it."""
USEFUL = ("msgspec", "orjson", "tokenizers", "tiktoken")
MARK = "eagle3-python-probe:"
OLDEST = (3, 10)

# Old enough for any python3 to run: what is newer than 3.10 is imported only after the version is known.
_BOOT = """\
import sys
print({mark!r} + "version " + ".".join(map(str, sys.version_info[:3])), flush=True)
if sys.version_info >= {oldest!r}:
    sys.path.insert(0, {code!r})
    from remote.probe_python import main
    main()
"""


@dataclass(frozen=True)
class PythonFacts:
    """What one interpreter said. `libraries`: name to version, None where it cannot be imported, with why in `errors`.

    `fingerprint` is None where no tokenizer was loaded; `error` says why the whole failed, `tokenizer_error` the
    tokenizer alone.
    """

    python: str
    version: str | None = None
    libraries: Mapping[str, str | None] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    fingerprint: Fingerprint | None = None
    tokenizer_error: OperatorError | None = None
    error: str = ""

    @property
    def new_enough(self) -> bool:
        """Whether it can run the generator at all."""
        if self.version is None:
            return False
        parts = tuple(int(part) for part in self.version.split(".")[:2] if part.isdigit())
        return parts >= OLDEST

    @property
    def missing(self) -> list[str]:
        """The libraries it needs and does not have."""
        return [name for name in NEEDED if self.libraries and self.libraries.get(name) is None]


def code_path() -> str:
    """What has to stand in `sys.path` for `import remote`: the archive we run from, or the checkout."""
    # The archive of sources: another Python could not read bytecode of this one.
    return str(archive_path() or Path(__file__).parent.parent)


def probe_python(python: str, options: Options, limit_s: float = LIMIT_S) -> PythonFacts:
    """Ask an interpreter. Never raises; takes at most `limit_s` and a second."""
    code = _BOOT.format(mark=MARK, oldest=OLDEST, code=code_path())
    try:
        child = subprocess.Popen(
            [python, "-B", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=_environment(),
        )
    except OSError as error:
        return PythonFacts(python, error=f"it cannot be started: {error.strerror or error}")
    try:
        out, err = child.communicate(json.dumps(options.to_json()).encode(), timeout=limit_s)
    except subprocess.TimeoutExpired:
        end_child(child)
        return PythonFacts(python, error=f"it did not answer within {limit_s:g} s")
    return _parse(python, out, err, child.returncode)


def _environment() -> dict[str, str]:
    """Ours without what could redirect the child's imports, and without the API key, which it does not need."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "EAGLE3_API_KEY")
    }


def end_child(child: subprocess.Popen[bytes]) -> None:
    """Kill a child that leads its own session, and what it started; takes at most a second."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        child.kill()
    try:
        child.communicate(timeout=1.0)
    except subprocess.TimeoutExpired:
        # In the kernel (state D): it ends when it can; nobody waits for it.
        return


def _parse(python: str, out: bytes, err: bytes, code: int) -> PythonFacts:
    said = [line[len(MARK) :] for line in out.decode("utf-8", "replace").splitlines() if line.startswith(MARK)]
    version = next((line[8:] for line in said if line.startswith("version ")), None)
    if version is None:
        last = clean(err.decode("utf-8", "replace").strip().rpartition("\n")[2], 200)
        return PythonFacts(python, error=f"it is no Python that works (exit code {code}{': ' + last if last else ''})")
    facts = PythonFacts(python, clean(version, 20))
    if not facts.new_enough:
        return facts
    try:
        told = json.loads(said[-1])
        error = told["tokenizer_error"]
        return PythonFacts(
            python,
            facts.version,
            {str(name): value for name, value in told["libraries"].items()},
            {str(name): clean(why, 200) for name, why in told["errors"].items()},
            Fingerprint.from_json(told["fingerprint"]),
            OperatorError.from_json(error) if isinstance(error, dict) else None,
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        last = clean(err.decode("utf-8", "replace").strip().rpartition("\n")[2], 200)
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return PythonFacts(
            python, facts.version, error=f"it ended without an answer ({how}{': ' + last if last else ''})"
        )


def main() -> None:
    """In the child: read the options from stdin, import, load, and print one line."""
    options = Options.from_json(json.loads(sys.stdin.read()))
    libraries: dict[str, str | None] = {}
    errors: dict[str, str] = {}
    for name in (*NEEDED, *USEFUL):
        try:
            importlib.import_module(name)
        except Exception as error:
            # A library can fail to import in any way: a wrong ABI, a missing .so, its own bug.
            libraries[name] = None
            errors[name] = f"{type(error).__name__}: {error}"
        else:
            libraries[name] = _version(name)
    told: dict[str, Any] = {"libraries": libraries, "errors": errors, "fingerprint": None, "tokenizer_error": None}
    if libraries["transformers"] is not None and options.model_path:
        from remote.render import load_tokenizer

        try:
            told["fingerprint"] = load_tokenizer(options).fingerprint.to_json()
        except OperatorError as error:
            told["tokenizer_error"] = error.to_json()
    print(MARK + json.dumps(told), flush=True)


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
