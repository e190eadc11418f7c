"""The small process above the generator: what the launch's double fork becomes.

It starts the generator in a session of its own, tells the launcher what the generator said,
stays its parent (so that its pid cannot be reused unnoticed), carries out stops to the end though
the operator's link drops, and writes how it ended. It holds no answer and no request: killing it
harms nothing, the generator runs on under the lock that both hold.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from remote import host, procfs
from remote.chronicle import Chronicle
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.gpus import helper_pids
from remote.identity import Identity, identify, myself, send
from remote.inflight import abort_leftovers
from remote.ladder import REST_S, Aim, Ladder
from remote.layout import Layout
from remote.lock import LOCK_FD, RunLock
from remote.members import describe, find_members
from remote.obituary import Death, exit_record
from remote.rotation import follow, open_log, rotate
from remote.runfile import Run, number, read_progress, read_stop, write_object, write_run
from remote.text import clean

READY_FD = "EAGLE3_READY_FD"
API_KEY = "EAGLE3_API_KEY"

_ROTATE_EVERY_S = 30.0
_MAX_READY_BYTES = 1 << 16
_PR_SET_CHILD_SUBREAPER = 36


class Supervisor:
    """One run's supervisor. `report_fd` takes one JSON line for the launcher and is closed."""

    def __init__(
        self,
        layout: Layout,
        run: Run,
        lock: RunLock,
        report_fd: int,
        secrets: Mapping[str, str],
        notify: Sequence[str] = (),
    ) -> None:
        self.layout = layout
        self.run = run
        self.lock = lock
        self.secrets = dict(secrets)
        self._report_fd = report_fd
        self._child: subprocess.Popen[bytes] | None = None
        self._ready_fd = -1
        self._ready = b""
        self._said: OperatorError | None = None
        self._ladder: Ladder | None = None
        self._asked: dict[str, Any] | None = None
        self._terms = 0
        self._wake_fd = -1
        self._oom_before: int | None = None
        self._chronicle = Chronicle(layout, run, notify, self._log)
        self._summary = ""

    def serve(self) -> int:
        """Run to the end of the generator; returns the exit status of this process."""
        self._take_signals()
        self._oom_before = host.oom_kills()
        try:
            self.lock.describe(f"run {self.run.run_id}", self.run.by)
            self._change(supervisor=myself())
            self._start()
        except (OSError, OperatorError) as error:
            self._could_not_start(error)
            return int(ExitCode.FAILED)
        self._chronicle.start()
        death = self._wait()
        if self.run.ready_at is None and self._said is None and self._asked is None:
            self._said = self._why_not_ready(death)
        left = self._sweep()
        self._reap_generator()
        self._record(death, left)
        self._report({"error": (self._said or self._why_not_ready(death)).to_json()})
        self._abort_leftovers(death)
        self._chronicle.stop()
        self.lock.release()
        if self.run.ready_at is not None:
            self._chronicle.ended(self._summary)
        return int(ExitCode.DONE)

    # -- start ---------------------------------------------------------------

    def _take_signals(self) -> None:
        self._wake_fd, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for asked in (signal.SIGTERM, signal.SIGINT):
            signal.signal(asked, lambda *_: self._term())
        # Missing before Linux 3.4 and in some sandboxes: then orphans go to PID 1, which is no worse than without us.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def _start(self) -> None:
        self._ready_fd, ready_writer = os.pipe2(os.O_CLOEXEC)
        log = open_log(self.layout)
        inherited = (self.lock.fd, ready_writer)
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("EAGLE3_", "SSH_"))},
            **self.secrets,
            procfs.MARK: self.run.run_id,
            LOCK_FD: str(self.lock.fd),
            READY_FD: str(ready_writer),
            "PYTHONUNBUFFERED": "1",
        }
        try:
            self._child = subprocess.Popen(
                list(self.run.argv),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=inherited,
                start_new_session=True,
                env=environment,
            )
        except OSError as error:
            raise OperatorError(
                "cannot-start",
                f"cannot start {clean(self.run.argv[0])}: {error.strerror}",
                "name a Python that works with --python, or free processes and memory",
            ) from None
        finally:
            os.close(ready_writer)
            os.close(log)
        self._change(generator=identify(self._child.pid))

    def _change(self, **changes: Any) -> None:
        self.run = replace(self.run, **changes)
        write_run(self.layout, self.run)

    def _could_not_start(self, error: OSError | OperatorError) -> None:
        if self._child is not None:
            # run.json could not be written: a generator that nobody can find again must not run on.
            self._child.kill()
            self._child.wait()
        if isinstance(error, OSError):
            error = OperatorError(
                "disk",
                f"cannot write {self.layout.state}: {error.strerror}",
                "free space or make the root writable, then launch again",
                ExitCode.DISK,
            )
        self._said = error
        self._write_exit(exit_record(self.run, Death(None, None), time.time(), error=error))
        self._report({"error": error.to_json()})

    def _report(self, message: Mapping[str, Any]) -> None:
        if self._report_fd < 0:
            return
        # The launcher may be gone (killed, link dropped): the run does not depend on it.
        with contextlib.suppress(OSError):
            os.write(self._report_fd, json.dumps(message).encode() + b"\n")
        os.close(self._report_fd)
        self._report_fd = -1

    # -- while it runs -------------------------------------------------------

    def _wait(self) -> Death:
        assert self._child is not None
        rotated_at = time.monotonic()
        while True:
            death = self._dead()
            if death is not None:
                self._hear_ready()
                return death
            now = time.monotonic()
            if now - rotated_at > _ROTATE_EVERY_S:
                rotated_at = now
                self._rotate()
            self._climb(now)
            timeout = min(_ROTATE_EVERY_S, self._ladder.wait_s(now) + 0.05) if self._ladder else _ROTATE_EVERY_S
            if self._ladder is not None and self._ladder.exhausted(now):
                timeout = 1.0
            self._sleep(timeout)

    def _sleep(self, timeout_s: float) -> None:
        watched = [self._wake_fd] + ([self._ready_fd] if self._ready_fd >= 0 else [])
        ready, _, _ = select.select(watched, [], [], timeout_s)
        if self._wake_fd in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake_fd, 4096)
            self._reap_orphans()
        if self._ready_fd in ready:
            self._hear_ready()

    def _dead(self) -> Death | None:
        """How the generator died, leaving it unreaped: its pid, and with it its session's number, stay taken."""
        assert self._child is not None
        found = os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        if found.si_code == os.CLD_EXITED:
            return Death(found.si_status, None)
        return Death(None, found.si_status)

    def _reap_generator(self) -> None:
        assert self._child is not None
        self._child.wait()

    def _reap_orphans(self) -> None:
        """Take in what the generator's descendants left behind; its own children are not ours to wait for."""
        ours = {self._child.pid if self._child else 0} | helper_pids()
        for stat in procfs.stats():
            if stat.dead and stat.ppid == os.getpid() and stat.pid not in ours:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(stat.pid, os.WNOHANG)

    def _hear_ready(self) -> None:
        if self._ready_fd < 0:
            return
        while select.select([self._ready_fd], [], [], 0)[0]:
            chunk = os.read(self._ready_fd, 4096)
            self._ready += chunk
            if not chunk or b"\n" in self._ready or len(self._ready) > _MAX_READY_BYTES:
                break
        else:
            return
        os.close(self._ready_fd)
        self._ready_fd = -1
        try:
            message = json.loads(self._ready or b"{}")
        except ValueError:
            message = {}
        if isinstance(message, dict) and isinstance(message.get("error"), dict):
            self._said = OperatorError.from_json(message["error"])
            self._report({"error": self._said.to_json()})
        elif isinstance(message, dict) and message.get("ready") is True:
            try:
                self._change(ready_at=time.time())
            except OSError as error:
                # It runs and is ready; that run.json could not say so must not stop it.
                self._log(f"cannot write {self.layout.run_json}: {error.strerror}")
            self._chronicle.ready()
            generator, supervisor = self.run.generator, self.run.supervisor
            self._report(
                {
                    "launched": {
                        "run_id": self.run.run_id,
                        "pid": generator.pid if generator else None,
                        "supervisor_pid": supervisor.pid if supervisor else None,
                        "identity": generator.to_json() if generator else None,
                    }
                }
            )

    def _rotate(self) -> None:
        try:
            if rotate(self.layout):
                follow(self.layout, 1, 2)
        except OSError as error:
            self._log(f"cannot rotate {self.layout.run_log}: {error.strerror}")

    def _log(self, text: str) -> None:
        with contextlib.suppress(OSError):
            os.write(2, f"{time.strftime('%Y-%m-%d %H:%M:%S')} supervisor: {clean(text, 500)}\n".encode())

    # -- stop ----------------------------------------------------------------

    def _term(self) -> None:
        self._terms += 1

    def _climb(self, now: float) -> None:
        if self._terms:
            again, self._terms = self._asked is not None, 0
            asked = read_stop(self.layout, self.run.run_id)
            if asked is None:
                # A plain kill of the supervisor: the first drains, a second means it.
                asked = {"mode": "now" if again else "drain", "drain_s": self.run.options.drain_s, "by": "a signal"}
            self._ask(asked, now)
        if self._ladder is None:
            return
        rung = self._ladder.step(now)
        if rung is None:
            return
        generator = self.run.generator
        targets = [generator] if rung.aim is Aim.LEADER and generator is not None else self._members()
        for target in targets:
            with contextlib.suppress(PermissionError):
                send(target, rung.signal)
        names = ", ".join(str(target.pid) for target in targets)
        self._log(f"sent {rung.signal.name} to {names or 'nobody'}, waiting {rung.wait_s:.0f} s")

    def _ask(self, asked: dict[str, Any], now: float) -> None:
        mode = asked.get("mode") if asked.get("mode") in ("drain", "now", "force") else "drain"
        drain_s = number(asked.get("drain_s"))
        seconds = self.run.options.drain_s if drain_s is None else drain_s
        if self._ladder is None:
            self._ladder = Ladder(str(mode), now, seconds, number(asked.get("patience_s")))
        elif not self._ladder.escalate(str(mode), now):
            return
        self._asked = {**asked, "mode": mode}
        self._log(f"asked to stop ({mode}) by {asked.get('by') or 'somebody'}")

    def _members(self) -> list[Identity]:
        return find_members(self.run.run_id, self.run.generator, self.run.supervisor)

    def _sweep(self) -> list[dict[str, Any]]:
        """End what outlived the generator; returns what would not go."""
        settled = time.monotonic() + REST_S
        ladder: Ladder | None = None
        while True:
            members = self._members()
            if not members:
                return []
            now = time.monotonic()
            if ladder is None and now >= settled:
                ladder = Ladder("rest", now, patience_s=number((self._asked or {}).get("patience_s")))
            rung = ladder.step(now) if ladder else None
            if rung is not None:
                for member in members:
                    with contextlib.suppress(PermissionError):
                        send(member, rung.signal)
                self._log(f"sent {rung.signal.name} to {', '.join(str(m.pid) for m in members)}, left by the generator")
            if ladder is not None and ladder.exhausted(now):
                return [describe(member).to_json() for member in members]
            self._sleep(0.1)

    # -- the end -------------------------------------------------------------

    def _record(self, death: Death, left: list[dict[str, Any]]) -> None:
        after = host.oom_kills()
        oom = None if after is None or self._oom_before is None else after > self._oom_before
        record = exit_record(
            self.run,
            death,
            time.time(),
            asked=self._asked,
            killed_by_us=self._ladder is not None and self._ladder.killed,
            oom=oom,
            left=left,
            progress=read_progress(self.layout, self.run.run_id),
            error=self._said,
        )
        self._write_exit(record)
        self._summary = str(record["detail"])
        self._log(self._summary)

    def _write_exit(self, record: Mapping[str, Any]) -> None:
        try:
            write_object(self.layout.exit_json, record)
        except OSError as error:
            self._log(f"cannot write {self.layout.exit_json}: {error.strerror}")

    def _why_not_ready(self, death: Death) -> OperatorError:
        tail = _last_lines(self.layout)
        how = f"signal {signal.Signals(death.signal).name}" if death.signal else f"exit code {death.code}"
        return OperatorError(
            "not-ready",
            f"the generator ended before it was ready ({how}){': ' + tail if tail else ''}",
            f"see {self.layout.run_log}",
        )

    def _abort_leftovers(self, death: Death) -> None:
        if death.code in (int(ExitCode.DONE), int(ExitCode.STOPPED)):
            return
        try:
            found = abort_leftovers(self.layout, self.secrets.get(API_KEY))
        except OSError as error:
            self._log(f"cannot read {self.layout.inflight_log}: {error.strerror}")
            return
        if found.found:
            rest = f"; {found.detail}" if found.detail else ""
            self._log(f"aborted {found.aborted} of {found.found} requests that it left on the engine{rest}")


def _last_lines(layout: Layout) -> str:
    """The end of the log in one line, for an operator who should not have to open it."""
    try:
        with layout.run_log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 2000))
            lines = [line for line in file.read().decode("utf-8", "replace").split("\n") if line.strip()]
    except OSError:
        return ""
    return clean(" · ".join(line.strip() for line in lines[-2:]), 400)


def become_supervisor(supervisor: Supervisor) -> None:
    """Turn a forked child into the supervisor: no terminal, no inherited descriptors, its own session. Does not return."""
    status = int(ExitCode.FAILED)
    try:
        log = open_log(supervisor.layout)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        kept = sorted({0, 1, 2, supervisor.lock.fd, supervisor._report_fd})
        for low, high in zip(kept, [*kept[1:], os.sysconf("SC_OPEN_MAX")], strict=True):
            os.closerange(low + 1, high)
        os.chdir("/")
        status = supervisor.serve()
    except BaseException as error:
        # The last frame above os._exit: nothing may escape into the launcher's copy of the stack.
        os.write(2, f"supervisor: failed: {type(error).__name__}: {clean(error, 500)}\n".encode())
    finally:
        sys.stdout.flush()
        os._exit(status)
