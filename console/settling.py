"""When a run's rate can be trusted. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from console.model import Generator

SETTLED_S = 600.0
"""A run that has gone on for so long has a rate that can be trusted, however few answers have come."""


def settled(generator: Generator, at: float) -> bool:
    """Whether a run's rate can be trusted at the container's time `at`.

    Tokens are counted when an answer is whole, and the first to be whole are the short ones: until about as many
    answers have come as are in flight, the rate is too low, and a time to go reckoned from it is absurdly long.
    """
    if generator.since is None or at - generator.since >= SETTLED_S:
        return True
    return bool(generator.answers) and (generator.answers or 0) >= (generator.in_flight or 0)
