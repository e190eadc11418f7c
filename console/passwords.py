"""Passwords of one hop: what a server that takes them is given, and by whom. Kept nowhere here; knows no SSH library.

A key is better and comes first; rented containers sometimes have nothing else. Asked for only once the host's key is
checked. What the server wants to be asked (keyboard-interactive) is its own text: it never becomes the kind of a
secret, or it could ask for the passphrase of a key in our name and get a remembered one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from console.login_keys import Ask
from console.sshconfig import Hop
from remote.text import clean

TRIES = 3
_PASSWORD = re.compile(r"\s*(?:\(?[^()\s]+@[^()\s]+\)?\s*|\S+'s\s+)?password\s*:?\s*", re.I)

_LONGEST_PROMPT = 200
"""A longer question is not a password's, and the pattern would take its time over it."""


class Outcome(StrEnum):
    """How it stands with passwords at a server."""

    NOT_TAKEN = "not-taken"
    """It takes none, or the user's configuration rules them out."""
    UNASKED = "unasked"
    """It takes one, and there is nobody to ask."""
    DECLINED = "declined"
    WRONG = "wrong"


class Passwords:
    """Asks for the passwords of one sign-in, a few times at most."""

    def __init__(self, hop: Hop, ask: Ask | None) -> None:
        self.outcome = Outcome.NOT_TAKEN
        self.asking = False
        """A person is being asked just now."""
        self._who = f"{hop.user}@{hop.where}"
        self._ask = ask
        self._left = TRIES
        self._may_begin = True

    async def password(self) -> str | None:
        """The next password to offer; None when there is none to be had."""
        if self._ask is None:
            self.outcome = Outcome.UNASKED
            return None
        if self._left == 0 or self.outcome is Outcome.DECLINED:
            return None
        self._left -= 1
        return await self._given("password", self._who)

    def begin_dialogue(self) -> bool:
        """Whether to let the server ask questions of its own; not once more after one that asked nothing."""
        if self._ask is None:
            self.outcome = Outcome.UNASKED
        may, self._may_begin = self._may_begin and self._ask is not None, False
        return may

    async def answers(self, prompts: Sequence[tuple[str, bool]]) -> list[str] | None:
        """What a person answers to the server's questions, each with whether it may be seen; None: they decline."""
        found: list[str] = []
        for prompt, seen in prompts:
            if not seen and len(prompt) <= _LONGEST_PROMPT and _PASSWORD.fullmatch(prompt):
                answer = await self.password()
            else:
                answer = await self._given("answer", f"“{clean(prompt, 100).strip()}”, asked by {self._who}")
            if answer is None:
                return None
            found.append(answer)
        self._may_begin = self._may_begin or bool(prompts)
        return found

    async def _given(self, kind: str, what: str) -> str | None:
        assert self._ask is not None
        self.asking = True
        try:
            secret = await self._ask(kind, what)
        finally:
            self.asking = False
        # Right until the server says otherwise: then it asks again, or there is this outcome to tell.
        self.outcome = Outcome.WRONG if secret else Outcome.DECLINED
        return secret or None
