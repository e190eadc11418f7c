"""Start the generator so that nothing on the operator's side can end it, and say truthfully whether it started.

`launch` runs this program's `launch` command (`detached`), which ends in `launch_here`: that one takes
the lock, forks twice into the supervisor, and waits on a pipe for what the generator says.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from remote.detached import own_command, run_detached
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.handshake import Report
from remote.identity import Identity, alive, send
from remote.layout import Layout
from remote.lock import RunLock
from remote.masking import masked_hook
from remote.options import Options
from remote.release import release
from remote.runfile import Run, new_run_id, read_run, write_run, write_stop
from remote.status import generator_status
from remote.supervisor import Supervisor, become_supervisor

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


@dataclass(frozen=True)
class Order:
    """What is to be launched, and for whom.

    `command` runs this program (`[PYTHON, "-B", ARCHIVE]`) and is the beginning of the generator's argv; `secrets`
    become variables of the generator's environment and are written nowhere; `by` is `user@host`; the generator has
    `handshake_timeout_s` to say that it is ready.
    """

    options: Options
    command: tuple[str, ...]
    by: str
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    handshake_timeout_s: float = HANDSHAKE_S

    def to_json(self) -> dict[str, Any]:
        """As the `launch` command takes it on stdin, secrets included: for a pipe, never for a file."""
        return {
            "options": self.options.to_json(),
            "command": list(self.command),
            "secrets": dict(self.secrets),
            "by": self.by,
            "handshake_timeout_s": self.handshake_timeout_s,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Order:
        """The inverse of `to_json`. Raises KeyError, TypeError or ValueError on anything else."""
        return cls(
            Options.from_json(value["options"]),
            tuple(str(word) for word in value["command"]),
            str(value["by"]),
            {str(name): str(secret) for name, secret in value["secrets"].items()},
            float(value["handshake_timeout_s"]),
        )


def launch(layout: Layout, order: Order) -> Launched:
    """Launch from a process that may have threads; safe to call from any of them.

    Returns when the generator says that it is ready.

    Raises OperatorError: what the generator said, `lock-held` (naming the holder), `cannot-lock`,
    `no-root`, `read-only`, `not-writable`, `cannot-start`, `not-ready`, `launch-timeout`.
    """
    _refuse_unfit(layout, order.options)
    answer = run_detached(
        [*own_command(layout), "launch", "--root", str(layout.root), "--settings", "-"],
        order.to_json(),
        order.handshake_timeout_s + _SLACK_S,
        "launch-timeout",
        "see whether it runs before trying again",
    )
    try:
        return Launched.from_json(answer["launched"])
    except (KeyError, TypeError, ValueError):
        raise OperatorError("launch-failed", "the launcher's answer cannot be read", f"see {layout.run_log}") from None


def launch_here(layout: Layout, order: Order) -> Launched:
    """The launch itself, in a process without threads that ends afterwards. Errors as `launch`."""
    options = order.options
    _refuse_unfit(layout, options)
    lock = RunLock.take(layout, "launch", order.by, "cannot-lock" in options.accept)
    if not lock.locked and (status := generator_status(layout)).living:
        # Without a lock the supervisor's death would open the door while its generator still writes.
        lock.release()
        raise OperatorError("lock-held", f"pid {status.pid} already generates under {layout.root}", "stop it first")
    now = time.time()
    run_id = new_run_id(now)
    # An address to post to is a secret in itself: the supervisor gets it in memory, the file shows the server.
    written = replace(options, notify=tuple(masked_hook(url) for url in options.notify))
    run = Run(run_id, tuple(_argv(layout, order, run_id)), written, now, order.by, release())
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
            become_supervisor(Supervisor(layout, run, lock, Report(write_fd), order.secrets, options.notify))
        os._exit(0)
    os.close(write_fd)
    os.waitpid(child, 0)
    lock.release()
    return _await_ready(layout, run_id, read_fd, order.handshake_timeout_s)


def _refuse_unfit(layout: Layout, options: Options) -> None:
    if options.read_only:
        raise OperatorError(
            "read-only", "nothing is launched in read-only mode", "start the console without --read-only"
        )
    layout.check_root()


def _argv(layout: Layout, order: Order, run_id: str) -> list[str]:
    """What `ps` shows: the run, and the settings that an operator looks for. `run.json` is what counts."""
    argv = [*order.command, "generate", "--run", run_id, "--root", str(layout.root)]
    plain = Options()
    for name in _SHOWN:
        value = getattr(order.options, name)
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
