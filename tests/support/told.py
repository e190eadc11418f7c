"""A real `watch --json`, and what it has told of its link, with the moment of each line."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.cli import start_console
from tests.support.sshd import Server


def words_for(server: Server) -> list[str]:
    """The command line's words that lead to a server with no file of the real user's."""
    target = server.target()
    command = f"ssh -F /dev/null {target.user}@{target.host} -p {target.port}"
    return [command, "--identity", target.identities[0], "--known-hosts", str(target.known_hosts)]


@dataclass(frozen=True)
class Line:
    """One event, and when it was read (`time.monotonic`)."""

    at_s: float
    event: dict[str, Any]

    @property
    def link(self) -> dict[str, Any]:
        """What it says of the link; empty for any other event."""
        link: dict[str, Any] = self.event.get("link", {})
        return link


class Told:
    """The lines so far; `until` waits for one that is still to come."""

    def __init__(self, *words: str, home: Path) -> None:
        self.process = start_console("watch", *words, "--json", home=home)
        self.lines: list[Line] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def until(self, holds: Callable[[dict[str, Any]], bool], since: int = 0, limit_s: float = 60.0) -> Line:
        """The first line from number `since` on whose link is so."""
        with self._changed:
            found: list[Line] = []

            def look() -> bool:
                found.extend(line for line in self.lines[since:] if line.link and holds(line.link))
                return bool(found)

            assert self._changed.wait_for(look, limit_s), [line.event for line in self.lines[since:]]
            return found[0]

    def live(self, since: int = 0) -> Line:
        """The next line that says that the link is live."""
        return self.until(lambda link: link["state"] == "live", since)

    def lost(self, since: int = 0) -> Line:
        """The next line that says that it is not."""
        return self.until(lambda link: link["state"] != "live", since)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            with self._changed:
                self.lines.append(Line(time.monotonic(), json.loads(text)))
                self._changed.notify_all()


@contextmanager
def told(*words: str, home: Path) -> Iterator[Told]:
    """A `watch` that is live; ended afterwards, also when it was stopped."""
    one = Told(*words, home=home)
    try:
        one.live()
        yield one
    finally:
        one.process.send_signal(signal.SIGCONT)
        one.process.terminate()
        one.process.wait(10)
