"""A stand-in engine in a process of its own, and what a test does to it: faults, a kill, a return on the same port."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.tokenizers import fast_model

REPO = Path(__file__).resolve().parents[2]
LIMIT_S = 30.0


class StandIn:
    """One engine. `flags` are those of `python -m console.demo.engine`, without their dashes."""

    def __init__(self, **flags: Any) -> None:
        self._flags = flags
        self.port = 0
        self.url = ""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> StandIn:
        """Start it, on the port it had before if it had one; returns when it listens."""
        words = [sys.executable, "-m", "console.demo.engine", "--port", str(self.port)]
        for name, value in self._flags.items():
            flag = "--" + name.replace("_", "-")
            words += [flag] if value is True else [flag, str(value)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=REPO)
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], LIMIT_S)[0], "the stand-in engine did not start"
        told = json.loads(process.stdout.readline())
        self.url = told["url"]
        self.port = int(self.url.rsplit(":", 1)[1])
        self._process = process
        return self

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    def ask(self, path: str, value: Any = None) -> Any:
        """One request; the answer's JSON, or its text where it is none."""
        data = None if value is None else json.dumps(value).encode()
        key = self._flags.get("api_key")
        headers = {"authorization": f"Bearer {key}"} if key else {}
        request = urllib.request.Request(self.url + path, data=data, headers=headers)
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            body = answer.read()
        try:
            return json.loads(body)
        except ValueError:
            return body.decode()

    def fault(self, kind: str, **more: Any) -> None:
        """Post a fault (see `console.demo.engine_faults`)."""
        self.ask("/_fault", {"kind": kind, **more})

    def seen(self) -> dict[str, Any]:
        """What it has seen: `requests`, `aborts`, the rids `running` and `waiting`, the last `sampling`."""
        found: dict[str, Any] = self.ask("/_seen")
        return found

    def kill(self) -> None:
        """SIGKILL, as a crash is."""
        assert self._process is not None
        self._process.kill()
        self._reap()

    @property
    def has_died(self) -> bool:
        """Whether it has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def wait_dead(self) -> int:
        """Wait until it has ended by itself; its status."""
        assert self._process is not None
        status = self._process.wait(LIMIT_S)
        self._reap()
        return status

    def stop(self) -> None:
        """End it, if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._reap()

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait(LIMIT_S)
            for pipe in (self._process.stdout, self._process.stderr):
                if pipe is not None:
                    pipe.close()
        self._process = None


QUICK: dict[str, Any] = {
    "request_tokens_s": 20_000,
    "batch_tokens_s": 400_000,
    "health_s": 0.01,
    "mean_tokens": 100,
    "sigma": 0.5,
}
"""An engine that answers in milliseconds, and its /health as well."""


@contextlib.contextmanager
def stand_in(**flags: Any) -> Iterator[StandIn]:
    """A quick engine for one test, with the fast model's vocabulary; flags overrule `QUICK`."""
    engine = StandIn(**{**QUICK, "model_path": fast_model().path, **flags}).start()
    try:
        yield engine
    finally:
        engine.stop()


def wait_until(what: str, seen: Any, limit_s: float = LIMIT_S) -> Any:
    """The first true value of `seen()`. Fails with `what` when it does not come."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        found = seen()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited {limit_s:g} s in vain for {what}")


def alive(pid: int) -> bool:
    """Whether a process of ours still runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
