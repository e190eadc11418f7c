"""What one run is told: the options, who it is, and how patient it is. Read from the environment that a supervisor sets,
or made for a run started by hand."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from remote.api_key import read_api_key
from remote.attempts import Backoff
from remote.errors import OperatorError
from remote.gate import GatePace
from remote.handshake import API_KEY, READY_FD
from remote.layout import Layout
from remote.lock import LOCK_FD
from remote.options import Options
from remote.runfile import new_run_id, read_run
from remote.text import clean
from remote.watchdog import WatchPace


@dataclass(frozen=True)
class Pace:
    """Every waiting time of a run, in one place, so that a test can be quick. Seconds."""

    gate: GatePace = field(default_factory=GatePace)
    watch: WatchPace = field(default_factory=WatchPace)
    backoff: Backoff = field(default_factory=Backoff)
    tick_s: float = 1.0
    control_every_s: float = 0.4
    model_every_s: float = 60.0
    log_every_s: float = 60.0
    cancel_limit_s: float = 15.0
    fall_limit_s: float = 8.0


@dataclass(frozen=True)
class RunSettings:
    """One run. `lock_fd` is the inherited lock and `ready_fd` where to say ready; None when it was started by hand."""

    options: Options
    run_id: str
    api_key: str | None = None
    lock_fd: int | None = None
    ready_fd: int | None = None
    pace: Pace = field(default_factory=Pace)

    @property
    def launched(self) -> bool:
        """Whether a supervisor started it."""
        return self.lock_fd is not None


def read_settings(options: Options, run_id: str | None, environment: Mapping[str, str]) -> RunSettings:
    """The settings of this process. A launched run takes its options from `run.json`, which overrules the command line.

    Raises OperatorError: `run.json` is another run's, or the API key's file cannot be read.
    """
    lock_fd, ready_fd = _number(environment.get(LOCK_FD)), _number(environment.get(READY_FD))
    if run_id is not None and lock_fd is not None:
        launched = read_run(Layout(Path(options.root)))
        if launched is None or launched.run_id != run_id:
            raise OperatorError(
                "wrong-run", f"run.json under {clean(options.root)} is not run {clean(run_id)}'s", "launch it again"
            )
        options = replace(launched.options, root=options.root)
    api_key = environment.get(API_KEY) or None
    if api_key is None and options.api_key_file is not None:
        api_key = read_api_key(options.api_key_file)
    return RunSettings(options, run_id or new_run_id(time.time()), api_key, lock_fd, ready_fd)


class Ready:
    """The pipe on which a supervisor waits to be told that the run has begun, or why not. Says it once."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd

    def yes(self) -> None:
        """The run has begun."""
        self._write({"ready": True})

    def no(self, error: OperatorError) -> None:
        """It has not; nothing when it was said to have."""
        self._write({"error": error.to_json()})

    def _write(self, value: Mapping[str, object]) -> None:
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        try:
            os.write(fd, json.dumps(value).encode() + b"\n")
        except BrokenPipeError:
            # The supervisor is gone: the run goes on without one.
            return
        finally:
            os.close(fd)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
