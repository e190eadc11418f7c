"""The two clocks of the operator's side, named for what they are good for."""

from __future__ import annotations

import time

_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady_s() -> float:
    """Seconds that never jump and that go on while the laptop sleeps: for ages and staleness.

    `time.monotonic` stands still during sleep on Linux and macOS; a link would look fresh after
    a night in a bag. `CLOCK_BOOTTIME` (Linux) and `CLOCK_MONOTONIC` (macOS) do not.
    """
    return time.clock_gettime(_STEADY)


def wall_s() -> float:
    """Seconds since 1970, as the laptop believes: for what is shown and for the skew."""
    return time.time()
