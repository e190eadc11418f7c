"""Which keys are offered, in which order: as OpenSSH does, and remembered, so that a refusal can name them.

Keys named for this call come first, then those an agent holds (all, or with IdentitiesOnly the named
ones), then key files, then encrypted files, for which somebody is asked.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Protocol

from console.link_errors import PassphraseNeeded
from console.sshconfig import Hop
from remote.text import clean

log = logging.getLogger("eagle3.link")

PASSPHRASE_TRIES = 3

Ask = Callable[[str, str], Awaitable[str | None]]
"""Asks the operator for a secret: kind (`passphrase`) and what it is for; None when they decline."""


class Encrypted(Exception):
    """A key file needs a passphrase."""


class WrongPassphrase(Exception):
    """The passphrase does not open the key file."""


class KeyLoader(Protocol):
    """What the SSH library does with keys."""

    def load(self, path: str, passphrase: str | None, certificates: Sequence[str]) -> list[Any]:
        """The key pairs of a file, with and without certificate. Raises Encrypted, WrongPassphrase, OSError, ValueError."""

    def public(self, path: str) -> bytes | None:
        """The public half in `path` or `path.pub`, as it travels; None when there is none."""

    async def agent(self, socket: str) -> list[Any]:
        """The key pairs that an agent holds. Raises OSError or ValueError."""


class LoginKeys:
    """The keys of one hop, given out one at a time; `tried` names those given out so far."""

    def __init__(self, hop: Hop, loader: KeyLoader, ask: Ask | None) -> None:
        self.tried: list[str] = []
        self.locked: PassphraseNeeded | None = None
        """The last key that could not be used for want of its passphrase."""
        self.asking = False
        """A person is being asked just now."""
        self._hop = hop
        self._loader = loader
        self._ask = ask
        self._stream = self._all()

    async def next(self) -> list[Any] | None:
        """The next key pair to offer, as a list of one; None when there is no other."""
        async for name, pair in self._stream:
            self.tried.append(name)
            log.debug("offering %s to %s", name, self._hop.where)
            return [pair]
        return None

    async def _all(self) -> AsyncIterator[tuple[str, Any]]:
        hop = self._hop
        encrypted: list[str] = []
        held = await self._held()
        if not hop.explicit:
            for pair in held:
                yield _agent_name(pair), pair
        for path in hop.identities:
            try:
                for pair in self._loader.load(path, None, hop.certificates):
                    yield path, pair
            except Encrypted:
                if not self._is_held(path, held):
                    encrypted.append(path)
            except (OSError, ValueError) as error:
                # OpenSSH passes over files that are not there; one that was named is worth a word.
                log.debug("key file %s is passed over: %s", path, error)
                if hop.explicit and not self._is_held(path, held):
                    self.tried.append(f"{clean(path)} (cannot be read)")
            if hop.explicit:
                for pair in [pair for pair in held if self._is_held(path, [pair])]:
                    yield _agent_name(pair), pair
        if hop.explicit and not hop.identities_only:
            for pair in held:
                yield _agent_name(pair), pair
        for path in encrypted:
            async for found in self._unlock(path):
                yield found

    async def _held(self) -> list[Any]:
        if self._hop.agent is None:
            return []
        try:
            pairs = await self._loader.agent(self._hop.agent)
        except (OSError, ValueError) as error:
            log.debug("the agent at %s is passed over: %s", self._hop.agent, error)
            return []
        if not self._hop.identities_only:
            return pairs
        wanted = {self._loader.public(path) for path in self._hop.identities}
        return [pair for pair in pairs if pair.public_data in wanted]

    def _is_held(self, path: str, held: Sequence[Any]) -> bool:
        public = self._loader.public(path)
        return public is not None and any(pair.public_data == public for pair in held)

    async def _unlock(self, path: str) -> AsyncIterator[tuple[str, Any]]:
        self.locked = PassphraseNeeded(path)
        for _ in range(PASSPHRASE_TRIES if self._ask is not None else 0):
            assert self._ask is not None
            self.asking = True
            try:
                passphrase = await self._ask("passphrase", path)
            finally:
                self.asking = False
            if not passphrase:
                return
            try:
                pairs = self._loader.load(path, passphrase, self._hop.certificates)
            except WrongPassphrase:
                self.locked = PassphraseNeeded(path, wrong=True)
                continue
            except (OSError, ValueError) as error:
                log.debug("key file %s is passed over: %s", path, error)
                return
            self.locked = None
            for pair in pairs:
                yield path, pair
            return


def _agent_name(pair: Any) -> str:
    comment = pair.get_comment_bytes() or b"without a name"
    return f"agent key {clean(comment, 60)}"
