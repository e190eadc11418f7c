"""A real agent in a process of its own, spoken to through its pipes as the console does."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from remote import protocol
from remote.mergepatch import apply
from remote.options import Options
from remote.protocol import Notification, Response

REPO = Path(__file__).resolve().parents[2]
LIMIT_S = 30.0
MARKER = "m-test"


class AgentProcess:
    """`python -m remote agent`. Reads in a thread; `snapshot` is kept up to date from the notifications."""

    def __init__(self, python: str = sys.executable, environment: Mapping[str, str] | None = None, *words: str) -> None:
        self.process = subprocess.Popen(
            [python, "-B", "-m", "remote", "agent", "--marker", MARKER, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=REPO,
            env={**os.environ, **(environment or {})},
        )
        self.lines: list[bytes] = []
        self.snapshot: dict[str, Any] | None = None
        self.stderr = b""
        self._answers: dict[int, Response] = {}
        self._news = threading.Condition()
        self._last_id = 0
        self._ready: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._read_errors, daemon=True).start()

    def ready(self) -> dict[str, Any]:
        """What it says of itself in its first line."""
        return self._ready.get(timeout=LIMIT_S)

    def send(self, data: bytes) -> None:
        """Raw bytes to its stdin."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def ask(self, method: str, params: Mapping[str, Any] | None = None) -> int:
        """Send a request and return its id, without waiting."""
        self._last_id += 1
        self.send(protocol.request(self._last_id, method, dict(params or {})))
        return self._last_id

    def answer(self, id: int, limit_s: float = LIMIT_S) -> Response:
        """The answer to a request."""
        return self.wait(lambda: self._answers.get(id), limit_s)

    def call(self, method: str, params: Mapping[str, Any] | None = None, limit_s: float = LIMIT_S) -> Any:
        """A request's result; raises its OperatorError."""
        response = self.answer(self.ask(method, params), limit_s)
        if response.error is not None:
            raise response.error
        return response.result

    def hello(self, options: Options) -> dict[str, Any]:
        """Begin, and wait for the first snapshot with nothing pending."""
        result: dict[str, Any] = self.call("hello", {"options": options.to_json(), "release": None})
        self.until(lambda snapshot: not snapshot.get("pending"))
        return result

    def until(self, condition: Callable[[dict[str, Any]], Any], limit_s: float = LIMIT_S) -> dict[str, Any]:
        """The first snapshot for which this holds."""
        self.wait(lambda: self.snapshot is not None and condition(self.snapshot), limit_s)
        assert self.snapshot is not None
        return self.snapshot

    def wait(self, condition: Callable[[], Any], limit_s: float = LIMIT_S) -> Any:
        """What the condition gives once it is true; fails after `limit_s`."""
        deadline = time.monotonic() + limit_s
        with self._news:
            while not (found := condition()):
                left = deadline - time.monotonic()
                assert left > 0, f"it did not happen within {limit_s} s; stderr: {self.stderr.decode()[-500:]}"
                self._news.wait(min(left, 0.5))
        return found

    def notifications(self, method: str) -> list[bytes]:
        """The lines of all notifications of this kind so far."""
        start = f'{{"jsonrpc":"2.0","method":"{method}"'.encode()
        with self._news:
            return [line for line in self.lines if line.startswith(start)]

    def ended(self, limit_s: float = LIMIT_S) -> int:
        """Its exit status, once it has ended by itself."""
        return self.process.wait(limit_s)

    def close(self) -> None:
        """End it by all means."""
        if self.process.stdin is not None and not self.process.stdin.closed:
            with suppress(BrokenPipeError):
                self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(5)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            facts = protocol.parse_ready(line.strip(), MARKER)
            if facts is not None:
                self._ready.put(facts)
                continue
            if not line.strip():
                continue
            message = protocol.parse_from_agent(line)
            with self._news:
                self.lines.append(line)
                if isinstance(message, Notification):
                    self._take(message)
                elif isinstance(message.id, int):
                    self._answers[message.id] = message
                self._news.notify_all()

    def _take(self, message: Notification) -> None:
        if message.method == "snapshot":
            self.snapshot = message.params[2]
        elif message.method == "patch":
            self.snapshot = apply(self.snapshot, message.params[2])

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.stderr += line


@contextmanager
def agent(
    options: Options | None = None,
    environment: Mapping[str, str] | None = None,
    *words: str,
    python: str = sys.executable,
) -> Iterator[AgentProcess]:
    """An agent that has said ready, and hello when options are given; ended at the end."""
    process = AgentProcess(python, environment, *words)
    try:
        process.ready()
        if options is not None:
            process.hello(options)
        yield process
    finally:
        process.close()


def append_line(path: Path, value: object) -> None:
    """Append one JSON line, as a writer of answers does."""
    with path.open("ab") as file:
        file.write(json.dumps(value).encode() + b"\n")
