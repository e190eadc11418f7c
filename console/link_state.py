"""What a failed connection means: try again and when, or wait for the operator. Pure."""

from __future__ import annotations

from console.view import LinkState
from remote.errors import OperatorError
from remote.exitcodes import ExitCode

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
LONGEST_NETWORK_PAUSE_S = 1.0
"""A network that was away may be back any moment, and a try that reaches nobody disturbs nobody."""

WAITS_FOR_OPERATOR = {
    "host-key-unknown": LinkState.UNKNOWN_KEY,
    "host-key-changed": LinkState.CHANGED_KEY,
}
"""Codes of the link's errors that another try cannot mend, and the state each leads to."""


def after_failure(error: OperatorError) -> tuple[LinkState, bool]:
    """The link's state after this error, and whether to try again by itself.

    Errors may carry `permanent = True` to say that trying again is useless (a refused key, no
    Python on the container); wrong usage is permanent too.
    """
    state = WAITS_FOR_OPERATOR.get(error.code)
    if state is not None:
        return state, False
    if getattr(error, "permanent", False) or error.exit_code is ExitCode.USAGE:
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
