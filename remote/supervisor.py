"""The small process above the generator: what the launch's double fork becomes.

It starts the generator in a session of its own, tells the launcher what the generator said,
stays its parent (so that its pid cannot be reused unnoticed), carries out stops to the end though
the operator's link drops, and writes how it ended. It holds no answer and no request: killing it
harms nothing, the generator runs on under the lock that both hold.
"""

from __future__ import annotations

import contextlib
import ctypes
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
from remote.api_key import read_api_key
from remote.chronicle import Chronicle
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.gpus import helper_pids
from remote.handshake import API_KEY, READY_FD, ReadyPipe, Report
from remote.identity import identify, myself
from remote.layout import Layout
from remote.lock import LOCK_FD, RunLock
from remote.obeying import Obeying
from remote.obituary import Death, exit_record
from remote.options import TABLE
from remote.rotation import follow, open_log, rotate
from remote.runfile import Run, read_progress, write_object, write_run
from remote.text import clean

_DROPPED = frozenset({option.variable for option in TABLE} | {procfs.MARK, LOCK_FD, READY_FD, API_KEY})
"""What would overrule `run.json`, or was meant for another process."""
_ROTATE_EVERY_S = 30.0
_PR_SET_CHILD_SUBREAPER = 36


class Supervisor:
    """One run's supervisor. `report` takes one message for the launcher."""

    def __init__(
        self,
        layout: Layout,
        run: Run,
        lock: RunLock,
        report: Report,
        secrets: Mapping[str, str],
        notify: Sequence[str] = (),
    ) -> None:
        self.layout = layout
        self.run = run
        self.lock = lock
        self.report = report
        self._secrets = dict(secrets)
        self._obeying = Obeying(layout, run, self._log)
        self._chronicle = Chronicle(layout, run, notify, self._log)
        self._ready = ReadyPipe()
        self._child: subprocess.Popen[bytes] | None = None
        self._said: OperatorError | None = None
        self._wake_fd = -1
        self._oom_before: int | None = None

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
        if self.run.ready_at is None and self._said is None and self._obeying.asked is None:
            self._said = self._why_not_ready(death)
        left = self._obeying.sweep(self._sleep)
        self._reap_generator()
        detail = self._record(death, left)
        self.report.send({"error": (self._said or self._why_not_ready(death)).to_json()})
        self._abort_leftovers(death)
        self._chronicle.stop()
        self.lock.release()
        if self.run.ready_at is not None:
            self._chronicle.ended(detail)
        return int(ExitCode.DONE)

    def inherited(self) -> tuple[int, ...]:
        """The descriptors that it needs from the launcher; all others are closed."""
        ready = (self._ready.fd, self._ready.writer)
        return tuple(fd for fd in (self.lock.fd, self.report.fd, *ready) if fd >= 0)

    # -- start ---------------------------------------------------------------

    def _take_signals(self) -> None:
        self._wake_fd, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for asking in (signal.SIGTERM, signal.SIGINT):
            signal.signal(asking, lambda *_: self._obeying.signalled())
        # Missing before Linux 3.4 and in some sandboxes: then orphans go to PID 1, which is no worse than without us.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def _start(self) -> None:
        log = open_log(self.layout)
        environment = {
            **{
                name: value
                for name, value in os.environ.items()
                if name not in _DROPPED and not name.startswith("SSH_")
            },
            **self._secrets,
            procfs.MARK: self.run.run_id,
            LOCK_FD: str(self.lock.fd),
            READY_FD: str(self._ready.writer),
            "PYTHONUNBUFFERED": "1",
        }
        try:
            self._child = subprocess.Popen(
                list(self.run.argv),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(self.lock.fd, self._ready.writer),
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
            self._ready.close_writer()
            os.close(log)
        self._change(generator=identify(self._child.pid))

    def _change(self, **changes: Any) -> None:
        self.run = replace(self.run, **changes)
        self._obeying.follow(self.run)
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
        self._write_exit(exit_record(self.run, Death(None, None), time.time(), error=error))
        self.report.send({"error": error.to_json()})

    # -- while it runs -------------------------------------------------------

    def _wait(self) -> Death:
        rotate_at = time.monotonic() + _ROTATE_EVERY_S
        while True:
            death = self._dead()
            if death is not None:
                self._hear()
                return death
            now_s = time.monotonic()
            if now_s >= rotate_at:
                rotate_at = now_s + _ROTATE_EVERY_S
                self._rotate()
            self._sleep(min(rotate_at - now_s, self._obeying.climb(now_s)))

    def _sleep(self, timeout_s: float) -> None:
        """Wait for a signal, a child's end or the generator's line, at most so long."""
        watched = [fd for fd in (self._wake_fd, self._ready.fd) if fd >= 0]
        ready, _, _ = select.select(watched, [], [], max(0.0, timeout_s))
        if self._wake_fd in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake_fd, 4096)
            self._reap_orphans()
        if self._ready.fd in ready:
            self._hear()

    def _dead(self) -> Death | None:
        """How the generator died, leaving it unreaped: its pid, and with it its session's number, stay taken."""
        assert self._child is not None
        found = os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        return Death(found.si_status, None) if found.si_code == os.CLD_EXITED else Death(None, found.si_status)

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

    def _hear(self) -> None:
        said = self._ready.hear()
        if isinstance(said, OperatorError):
            self._said = said
            self.report.send({"error": said.to_json()})
        elif said is True:
            try:
                self._change(ready_at=time.time())
            except OSError as error:
                # It runs and is ready; that run.json could not say so must not stop it.
                self._log(f"cannot write {self.layout.run_json}: {error.strerror}")
            self._chronicle.ready()
            generator, supervisor = self.run.generator, self.run.supervisor
            launched = {
                "run_id": self.run.run_id,
                "pid": generator.pid if generator else None,
                "supervisor_pid": supervisor.pid if supervisor else None,
                "identity": generator.to_json() if generator else None,
            }
            self.report.send({"launched": launched})

    def _rotate(self) -> None:
        try:
            if rotate(self.layout):
                follow(self.layout, 1, 2)
        except OSError as error:
            self._log(f"cannot rotate {self.layout.run_log}: {error.strerror}")

    def _log(self, text: str) -> None:
        with contextlib.suppress(OSError):
            os.write(2, f"{time.strftime('%Y-%m-%d %H:%M:%S')} supervisor: {clean(text, 500)}\n".encode())

    # -- the end -------------------------------------------------------------

    def _record(self, death: Death, left: list[dict[str, Any]]) -> str:
        """Write `exit.json`; returns its sentence."""
        after = host.oom_kills()
        oom = None if after is None or self._oom_before is None else after > self._oom_before
        record = exit_record(
            self.run,
            death,
            time.time(),
            asked=self._obeying.asked,
            killed_by_us=self._obeying.killed,
            oom=oom,
            left=left,
            lost_tokens=self._lost_tokens(death),
            error=self._said,
        )
        self._write_exit(record)
        detail = str(record["detail"])
        self._log(detail)
        return detail

    def _lost_tokens(self, death: Death) -> int | None:
        """Decoded for answers that were thrown away, as the generator last estimated it."""
        if self._obeying.lost_tokens is not None or death.signal is None:
            return self._obeying.lost_tokens
        lost = read_progress(self.layout, self.run.run_id).get("lost_if_stopped_tokens")
        return lost if isinstance(lost, int) and not isinstance(lost, bool) else None

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
        # Needed at a bad end alone, and http costs a launch as much again as all the rest.
        from remote.inflight import abort_leftovers

        try:
            found = abort_leftovers(self.layout, self._api_key())
        except OSError as error:
            self._log(f"cannot read {self.layout.inflight_log}: {error.strerror}")
            return
        if found.found:
            rest = f"; {found.detail}" if found.detail else ""
            self._log(f"aborted {found.aborted} of {found.found} requests that it left on the engine{rest}")

    def _api_key(self) -> str | None:
        key, path = self._secrets.get(API_KEY), self.run.options.api_key_file
        if key or path is None:
            return key
        try:
            return read_api_key(path)
        except OperatorError as error:
            self._log(str(error))
            return None


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
        kept = sorted({0, 1, 2, *supervisor.inherited()})
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
