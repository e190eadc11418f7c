"""Start the generator so that nothing on the operator's side can end it, and say truthfully whether it started.

The agent has threads, and a process with threads must not fork without exec: so it runs this
program's `launch` command, with the settings over stdin (secrets are never in an argv). That one
takes the lock, forks twice into the supervisor, and waits on a pipe for what the generator says.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.handshake import Report
from remote.identity import Identity, alive, send
from remote.layout import Layout
from remote.lock import RunLock
from remote.masking import masked_hook
from remote.options import Options
from remote.release import archive_path, durable_archive, release
from remote.runfile import Run, new_run_id, read_run, write_run, write_stop
from remote.status import generator_status
from remote.supervisor import Supervisor, become_supervisor
from remote.text import clean

HANDSHAKE_S = 240.0
"""Importing transformers from a cold disk, loading a tokenizer and planning a full tree fit in this several times."""
_SLACK_S = 15.0
_MAX_ANSWER_BYTES = 1 << 20
_SHOWN = ("token_budget", "max_samples", "datasets", "concurrency", "max_new_tokens", "model_path")


@dataclass(frozen=True)
class Launched:
    """A generator that said it is ready, and its supervisor."""

    run_id: str
    pid: int
    supervisor_pid: int
    identity: Identity | None

    def to_json(self) -> dict[str, Any]:
        """The result of the `launch` method."""
        return {
            "run_id": self.run_id,
            "pid": self.pid,
            "supervisor_pid": self.supervisor_pid,
            "identity": self.identity.to_json() if self.identity else None,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Launched:
        """The inverse of `to_json`. Raises KeyError or TypeError on anything else."""
        return cls(
            str(value["run_id"]),
            int(value["pid"]),
            int(value["supervisor_pid"]),
            Identity.from_json(value.get("identity")),
        )


def launch(
    layout: Layout,
    options: Options,
    command: Sequence[str],
    secrets: Mapping[str, str],
    by: str,
    handshake_timeout_s: float = HANDSHAKE_S,
) -> Launched:
    """Launch from a process that may have threads; safe to call from any of them.

    `command` runs this program (`[PYTHON, "-B", ARCHIVE]`) and is the beginning of the generator's
    argv; `secrets` become variables of the generator's environment and are written nowhere; `by`
    is `user@host`. Returns when the generator says that it is ready.

    Raises OperatorError: what the generator said, `lock-held` (naming the holder), `cannot-lock`,
    `no-root`, `read-only`, `not-writable`, `cannot-start`, `not-ready`, `launch-timeout`.
    """
    settings = {
        "options": options.to_json(),
        "command": list(command),
        "secrets": dict(secrets),
        "by": by,
        "handshake_timeout_s": handshake_timeout_s,
    }
    _refuse_unfit(layout, options)
    answer = run_detached(
        [*own_command(layout), "launch", "--root", str(layout.root), "--settings", "-"],
        settings,
        handshake_timeout_s + _SLACK_S,
        "launch-timeout",
        "see whether it runs before trying again",
    )
    try:
        return Launched.from_json(answer["launched"])
    except (KeyError, TypeError, ValueError):
        raise OperatorError("launch-failed", "the launcher's answer cannot be read", f"see {layout.run_log}") from None


def own_command(layout: Layout) -> list[str]:
    """This very program, in an interpreter of its own and from a file that stays.

    On a full disk a stop must still work: then it runs from where it is now, which serves as long
    as nobody replaces it meanwhile. Raises OperatorError when it is nowhere but in memory.
    """
    python = [sys.executable, "-I", "-B"]
    try:
        layout.make_state()
        return [*python, str(durable_archive(layout.state / "program"))]
    except OSError as error:
        if archive_path() is None:
            source = str(Path(__file__).resolve().parent.parent)
            return [
                *python,
                "-c",
                f"import sys; sys.path.insert(0, {source!r}); from remote.cli import main; sys.exit(main())",
            ]
        raise OperatorError(
            "not-writable",
            f"cannot write {layout.state}: {error.strerror}",
            "check that the root exists, is writable and has space",
        ) from None


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


def launch_here(
    layout: Layout,
    options: Options,
    command: Sequence[str],
    secrets: Mapping[str, str],
    by: str,
    handshake_timeout_s: float = HANDSHAKE_S,
) -> Launched:
    """The launch itself, in a process without threads that ends afterwards. Parameters and errors as `launch`."""
    _refuse_unfit(layout, options)
    lock = RunLock.take(layout, "launch", by, "cannot-lock" in options.accept)
    if not lock.locked and (status := generator_status(layout)).living:
        # Without a lock the supervisor's death would open the door while its generator still writes.
        lock.release()
        raise OperatorError("lock-held", f"pid {status.pid} already generates under {layout.root}", "stop it first")
    now = time.time()
    run_id = new_run_id(now)
    # An address to post to is a secret in itself: the supervisor gets it in memory, the file shows the server.
    written = replace(options, notify=tuple(masked_hook(url) for url in options.notify))
    run = Run(run_id, tuple(_argv(layout, options, command, run_id)), written, now, by, release())
    try:
        write_run(layout, run)
    except OSError as error:
        raise OperatorError(
            "disk",
            f"cannot write {layout.run_json}: {error.strerror}",
            "free space on the root's file system",
            ExitCode.DISK,
        ) from None
    read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
    # Before the first fork, and inherited by all that follows: a hang-up must find nobody unprepared.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            become_supervisor(Supervisor(layout, run, lock, Report(write_fd), secrets, options.notify))
        os._exit(0)
    os.close(write_fd)
    os.waitpid(child, 0)
    lock.release()
    return _await_ready(layout, run_id, read_fd, handshake_timeout_s)


def _refuse_unfit(layout: Layout, options: Options) -> None:
    if options.read_only:
        raise OperatorError(
            "read-only", "nothing is launched in read-only mode", "start the console without --read-only"
        )
    if not layout.root.is_dir():
        raise OperatorError(
            "no-root", f"there is no folder {layout.root}", "check --root, or whether the volume is mounted"
        )


def _argv(layout: Layout, options: Options, command: Sequence[str], run_id: str) -> list[str]:
    """What `ps` shows: the run, and the settings that an operator looks for. `run.json` is what counts."""
    argv = [*command, "generate", "--run", run_id, "--root", str(layout.root)]
    plain = Options()
    for name in _SHOWN:
        value = getattr(options, name)
        if value is None or (name != "token_budget" and value == getattr(plain, name)):
            continue
        text = ",".join(value) if isinstance(value, tuple) else str(value)
        argv += ["--" + name.replace("_", "-"), text]
    return argv


def _await_ready(layout: Layout, run_id: str, read_fd: int, timeout_s: float) -> Launched:
    deadline = time.monotonic() + timeout_s
    answer = b""
    with os.fdopen(read_fd, "rb", buffering=0) as pipe:
        while not answer.endswith(b"\n") and len(answer) < _MAX_ANSWER_BYTES:
            if not select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise _timed_out(layout, run_id, timeout_s)
            chunk = os.read(pipe.fileno(), 1 << 16)
            if not chunk:
                break
            answer += chunk
    try:
        message = json.loads(answer)
        if "error" in message:
            raise OperatorError.from_json(message["error"])
        return Launched.from_json(message["launched"])
    except (ValueError, KeyError, TypeError):
        raise OperatorError(
            "launch-failed", "the supervisor ended before the generator was ready", f"see {layout.run_log}"
        ) from None


def _timed_out(layout: Layout, run_id: str, timeout_s: float) -> OperatorError:
    """A launch that is not ready in time is taken back: one that might start later is worse than none."""
    run = read_run(layout)
    stopped = "it could not be told to stop"
    if run is not None and run.run_id == run_id and run.supervisor is not None and alive(run.supervisor):
        try:
            write_stop(layout, run_id, "now", 0.0, "the launcher")
        except OSError:
            stopped = "told to stop, without a reason on record"
        else:
            stopped = "told to stop"
        send(run.supervisor, signal.SIGTERM)
    return OperatorError(
        "launch-timeout",
        f"the generator was not ready within {timeout_s:.0f} s; {stopped}",
        f"see {layout.run_log}, then launch again",
    )
