"""What one agent serves: its options, the rounds that follow them, and the secrets that it was given. Shared by all methods."""

from __future__ import annotations

import platform
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from remote import procfs
from remote.errors import OperatorError
from remote.identity import myself
from remote.layout import Layout
from remote.options import Options
from remote.release import release
from remote.rounds import Rounds
from remote.text import clean

if TYPE_CHECKING:
    from remote.probe_python import PythonFacts

PYTHON_FACTS_HOLD_S = 120.0


def _python_options(options: Options) -> object:
    """The options that a Python's facts depend on."""
    return (options.python, options.model_path, options.trust_remote_code, options.template_kwargs)


class Session:
    """One console's agent. `aim` may be called again: the old rounds end and new ones begin."""

    def __init__(self, on_news: Callable[[], None]) -> None:
        self._on_news = on_news
        self._lock = threading.Lock()
        self._rounds: Rounds | None = None
        self._python: tuple[object, PythonFacts, float] | None = None
        self.api_key: str | None = None
        """Given with a launch; kept in memory to look at the engine with, and written nowhere."""

    @property
    def rounds(self) -> Rounds:
        """The present rounds. Raises OperatorError before `hello`."""
        rounds = self._rounds
        if rounds is None:
            raise OperatorError("no-hello", "the agent has not been told its options", "call hello first")
        return rounds

    @property
    def options(self) -> Options:
        """The options the agent was aimed with."""
        return self.rounds.options

    @property
    def layout(self) -> Layout:
        """The paths under the root it looks at."""
        return self.rounds.layout

    def aim(self, options: Options) -> None:
        """Look at this root with these options from now on.

        Read-only is for good: an agent that was started so stays so, whoever asks.
        """
        with self._lock:
            old = self._rounds
            if old is not None:
                if old.options == options:
                    return
                options = replace(options, read_only=options.read_only or old.options.read_only)
            rounds = Rounds(options, self._agent_facts(), lambda: self.api_key, self._on_news)
            rounds.start()
            self._rounds = rounds
        if old is not None:
            # Its threads may hang in the kernel; nobody waits for them here.
            threading.Thread(target=old.close, name="close-rounds", daemon=True).start()

    def same_root(self, options: Options) -> Options:
        """The options, when they are about the root that is being looked at. Raises OperatorError `other-root`."""
        if options.root != self.options.root:
            raise OperatorError(
                "other-root",
                f"the agent looks at {clean(self.options.root)}, and the request is about {clean(options.root)}",
                "point the console at that root first",
            )
        return options

    def remember_python(self, options: Options, facts: PythonFacts) -> None:
        """What the preflight found out about the Python, for the launch that follows it."""
        self._python = (_python_options(options), facts, time.monotonic())

    def known_python(self, options: Options) -> PythonFacts | None:
        """What is known of that Python from a preflight of the last two minutes, else None."""
        asked, facts, at_s = self._python or (None, None, 0.0)
        fresh = time.monotonic() - at_s < PYTHON_FACTS_HOLD_S
        return facts if fresh and asked == _python_options(options) else None

    def refuse_if_read_only(self, method: str) -> None:
        """Raises OperatorError `read-only` when nothing may be changed."""
        if self.options.read_only:
            raise OperatorError(
                "read-only",
                f"the agent was started read-only and refuses {clean(method, 40)}",
                "connect without --read-only to change something",
            )

    def greeting(self) -> dict[str, Any]:
        """The result of `hello`."""
        return {
            "release": release(),
            "python": platform.python_version(),
            "pid": myself().pid,
            "host": clean(socket.gethostname(), 120),
            "boot_id": procfs.boot_id() or None,
            "at": time.time(),
        }

    def close(self) -> None:
        """End the rounds; takes at most two seconds."""
        if self._rounds is not None:
            self._rounds.close()

    def _agent_facts(self) -> dict[str, Any]:
        return {"release": release(), "pid": myself().pid, "python": platform.python_version()}
