"""What passes between launcher, supervisor and generator: names of variables, and one JSON line on each of two pipes."""

from __future__ import annotations

import contextlib
import json
import os
import select
from collections.abc import Mapping
from typing import Any

from remote.errors import OperatorError

READY_FD = "EAGLE3_READY_FD"
"""Variable with the descriptor on which the generator says `{"ready": true}` or `{"error": {...}}`, once."""
API_KEY = "EAGLE3_API_KEY"
"""Variable with the engine's key: the one place where it is."""

_MAX_LINE_BYTES = 1 << 16


class ReadyPipe:
    """The supervisor's end of the generator's one line. `fd` is -1 once it has been heard."""

    def __init__(self) -> None:
        self.fd, self.writer = os.pipe2(os.O_CLOEXEC)
        self._line = b""

    def close_writer(self) -> None:
        """Close our copy of the generator's end, so that its death is an end of file."""
        os.close(self.writer)

    def hear(self) -> bool | OperatorError | None:
        """True when it said ready, its error, False when it closed the pipe or said nonsense; None while it is silent.

        Never blocks. After anything but None the pipe is closed.
        """
        while self.fd >= 0 and select.select([self.fd], [], [], 0)[0]:
            chunk = os.read(self.fd, 4096)
            self._line += chunk
            if not chunk or b"\n" in self._line or len(self._line) > _MAX_LINE_BYTES:
                os.close(self.fd)
                self.fd = -1
                return _parse(self._line)
        return None


def _parse(line: bytes) -> bool | OperatorError:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return False
    if isinstance(message, dict) and isinstance(message.get("error"), dict):
        return OperatorError.from_json(message["error"])
    return isinstance(message, dict) and message.get("ready") is True


class Report:
    """The supervisor's one line to the launcher: `{"launched": {...}}` or `{"error": {...}}`; later ones are dropped."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def send(self, message: Mapping[str, Any]) -> None:
        """Say it and close. The launcher may be gone (killed, link dropped): the run does not depend on it."""
        if self.fd < 0:
            return
        with contextlib.suppress(OSError):
            os.write(self.fd, json.dumps(message).encode() + b"\n")
        os.close(self.fd)
        self.fd = -1
