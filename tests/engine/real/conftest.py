"""Real SGLang servers for the tests of this folder, one start a version."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.real.environment import CACHE, server_environment, server_words

VERSIONS = os.environ.get("EAGLE3_REAL_ENGINES", "").split()
_START_LIMIT_S = 300.0


class RealEngine:
    """One server; started again on the same port after a kill."""

    def __init__(self, version: str) -> None:
        self.version = version
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = CACHE / f"server-{version}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self) -> None:
        """Start it without waiting for it."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                server_words(self.version, self.port),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=server_environment(),
                cwd=CACHE,
                start_new_session=True,
            )

    def start(self) -> RealEngine:
        """Start it and wait until it is healthy."""
        self.launch()
        deadline = time.monotonic() + _START_LIMIT_S
        while time.monotonic() < deadline:
            assert self._process is not None and self._process.poll() is None, f"the server ended; see {self.log}"
            try:
                with urllib.request.urlopen(self.url + "/health", timeout=25):
                    return self
            except (urllib.error.URLError, OSError):
                time.sleep(0.5)
        raise AssertionError(f"no server within {_START_LIMIT_S:.0f} s; see {self.log}")

    def running(self) -> int:
        """Requests that run there now."""
        with urllib.request.urlopen(self.url + "/metrics", timeout=10) as answer:
            text: str = answer.read().decode()
        values = [line.rsplit(" ", 1)[1] for line in text.split("\n") if line.startswith("sglang:num_running_reqs{")]
        return round(sum(map(float, values)))

    def post(self, path: str, body: bytes) -> Any:
        """One request; its body."""
        request = urllib.request.Request(self.url + path, data=body, headers={"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read()

    @property
    def alive(self) -> bool:
        """Whether its first process runs."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL to the server and all its processes."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(30)
            self._process = None


@pytest.fixture(scope="module", params=VERSIONS or [pytest.param("none", marks=pytest.mark.skip("make test-engine"))])
def server(request: pytest.FixtureRequest) -> Iterator[RealEngine]:
    """A healthy server of one version."""
    engine = RealEngine(request.param)
    Path(engine.log).unlink(missing_ok=True)
    try:
        yield engine.start()
    finally:
        engine.kill()
