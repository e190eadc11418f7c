"""How a target is reached: one connector per target, which imports the SSH library only when it connects."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Awaitable, Callable

from console.link_errors import HostKeyUnknown, LinkError
from console.local import connect_local
from console.pipe import AgentPipe
from console.target import Target
from remote.errors import OperatorError

AskSecret = Callable[[str, str], Awaitable[str | None]]
"""Asks the operator for a secret: its kind and what it is for; None when they decline."""


AGAIN_DIAL_LIMIT_S = 3.5
"""Once it was reached, or while the network is away. TCP repeats its knock after 1, 3 and 7 s: a fresh
try each time a long gap would begin notices within two seconds that the network is back."""


KEPT_KINDS = frozenset({"passphrase", "password"})
"""An answer to a question of the server's own (a code that is good once) is asked for each time."""


class Remembered:
    """Secrets that opened a door once are not asked for again: a link comes back by itself, also at night.

    They live in this process's memory alone, for as long as it runs.
    """

    def __init__(self, ask: AskSecret) -> None:
        self._ask = ask
        self._known: dict[tuple[str, str], str] = {}

    def attempt(self) -> AskSecret:
        """What one connection asks by: a remembered answer first, and a person when that was wrong."""
        offered: set[tuple[str, str]] = set()

        async def answer(kind: str, what: str) -> str | None:
            asked = (kind, what)
            if asked in self._known and asked not in offered:
                offered.add(asked)
                return self._known[asked]
            offered.add(asked)
            # Wrong by now: nobody may be there to say so, and it must not be offered again and again.
            self._known.pop(asked, None)
            given = await self._ask(kind, what)
            if given and kind in KEPT_KINDS:
                self._known[asked] = given
            return given

        return answer


class Connector:
    """Connects to one target, as a controller asks for it, again and again.

    `unknown` is the host key that was shown last and is not trusted yet; `accept_key` pins it.
    """

    def __init__(self, target: Target, python: str | None = None, ask: AskSecret | None = None) -> None:
        self.unknown: HostKeyUnknown | None = None
        self.on_stage: Callable[[str], None] = lambda stage: None
        self._target = target
        self._python = python
        self._secrets = Remembered(ask) if ask is not None else None
        self._again = False

    async def __call__(self) -> AgentPipe:
        """A running agent. Raises OperatorError."""
        try:
            pipe = await self._connect()
        except HostKeyUnknown as unknown:
            self.unknown = unknown
            raise
        except LinkError as error:
            self._again = self._again or error.network
            raise
        self.unknown = None
        self._again = True
        return pipe

    async def _connect(self) -> AgentPipe:
        def tell(stage: str) -> None:
            self.on_stage(stage)

        if self._target.kind == "local":
            return await connect_local(python=self._python, on_stage=tell)
        # The import of asyncssh alone takes a noticeable part of a second: not on the loop that draws.
        link = await asyncio.to_thread(importlib.import_module, "console.link")
        pipe: AgentPipe = await link.connect(
            self._target,
            python=self._python,
            ask=self._secrets.attempt() if self._secrets is not None else None,
            on_stage=tell,
            environment=os.environ,
            dial_limit_s=AGAIN_DIAL_LIMIT_S if self._again else None,
        )
        return pipe

    def accept_key(self, shown: str) -> None:
        """Pin the key of the sentence that was shown, after an explicit yes.

        Raises OperatorError when none waits for an answer, when another try has met another key meanwhile, or when it
        cannot be kept.
        """
        if self.unknown is None:
            raise OperatorError("no-key", "no unknown host key is waiting for an answer", "connect again with R")
        if self.unknown.message != shown:
            raise OperatorError(
                "key-differs",
                f"this is not the key that was met last: {self.unknown.message}",
                "nothing is kept; leave this with Esc and look again with R",
            )
        importlib.import_module("console.link").accept_key(self.unknown)
        self.unknown = None
