"""What a failed connection means: try again and when, or wait for the operator. Pure."""

from __future__ import annotations

from console.view import LinkState
from remote.errors import OperatorError
from remote.exitcodes import ExitCode

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
LONGEST_NETWORK_PAUSE_S = 1.0
"""A network that was away may be back any moment, and a try that reaches nobody disturbs nobody."""

KEY_QUESTIONS = {
    "host-key-unknown": LinkState.UNKNOWN_KEY,
    "host-key-changed": LinkState.CHANGED_KEY,
}
"""Codes of the link's errors about the server's key, and the state each leads to."""

FOR_A_PERSON = frozenset({"host-key-revoked", "host-certificate", "not-let-in", "passphrase-needed", "usage"})
"""Codes that knocking again cannot mend and may make worse (a server that counts failed logins)."""


def after_failure(error: OperatorError, was_live: bool = False) -> tuple[LinkState, bool]:
    """The link's state after this error, and whether to try again by itself.

    Errors carry `permanent = True` when trying again is useless: no Python there, a login shell
    that ends. Where the link was live before (`was_live`), such a thing is more likely a container
    that is just starting: it is tried again, as everything is that does not ask for a person.
    """
    state = KEY_QUESTIONS.get(error.code)
    if state is not None:
        return state, False
    if error.code in FOR_A_PERSON or error.exit_code is ExitCode.USAGE:
        return LinkState.FAILED, False
    if getattr(error, "permanent", False) and not was_live:
        return LinkState.FAILED, False
    return LinkState.RECONNECTING, True


def backoff_s(attempt: int, chance: float, network: bool = False) -> float:
    """The pause before the next try: doubles from half a second to half a minute, spread by half; `network` failures
    (the error's attribute of that name) are tried again within a second or so.

    `attempt` counts failed tries since the link was last live, from 1 (0 counts as 1); `chance`
    is a random number in [0, 1), passed in so that this is pure. Spreading keeps many consoles
    from knocking at one sshd in step (MaxStartups drops some of them then).
    """
    longest_s = LONGEST_NETWORK_PAUSE_S if network else LONGEST_PAUSE_S
    pause_s = min(longest_s, FIRST_PAUSE_S * 2.0 ** min(max(attempt, 1) - 1, 16))
    return pause_s * (0.5 + chance)
