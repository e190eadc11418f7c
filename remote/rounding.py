"""Figures that never stand still, rounded to what an operator can use, so that they are sent only when that changes."""

from __future__ import annotations

import math


def significant(value: float | None, digits: int = 3) -> float | int | None:
    """The value to so many significant digits, a whole number where it is one. None stays None."""
    if value is None or value == 0 or not math.isfinite(value):
        return 0 if value == 0 else None
    places = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, places)
    return int(rounded) if places <= 0 or rounded == int(rounded) else rounded


def floor_to(value: float | None, step: float) -> int | None:
    """A point in time or a size, rounded down to a multiple of `step`."""
    return None if value is None or not math.isfinite(value) else int(value // step * step)


def step_of(value: float | None, step: float) -> float | int | None:
    """The nearest multiple of `step`, a whole number where it is one."""
    if value is None or not math.isfinite(value):
        return None
    rounded = round(round(value / step) * step, 6)
    return int(rounded) if rounded == int(rounded) else rounded


def whole(value: object) -> int | None:
    """A JSON number as a whole one; anything else, a boolean too, is None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return int(value)
