"""Figures as a person reads them, the same on both sides of the link.

Unknown (None) is `–`, never 0. Counts are exact with thousands separated; token numbers and
estimates carry three significant digits or a little more; one unit a figure, a space before it.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone, tzinfo

UNKNOWN = "–"
UTC = timezone.utc
_UNITS = ((10**9, " G"), (10**6, " M"), (10**3, " k"))


def count(number: float | None) -> str:
    """An exact count: `2,912`."""
    return UNKNOWN if number is None else f"{round(number):,}"


def significant(number: float, digits: int = 3) -> str:
    """A number of 0 or more to `digits` significant digits, without exponent: `0.312`, `15.0`, `34,900`."""
    if number == 0:
        return "0"
    exponent = math.floor(math.log10(abs(number)))
    rounded = round(number, digits - 1 - exponent)
    if abs(rounded) >= 10 ** (exponent + 1):
        exponent += 1
    return f"{rounded:,.{max(0, digits - 1 - exponent)}f}"


def about(number: float | None) -> str:
    """An estimate of a count, three significant digits: `34,900`, `412`, `0`."""
    if number is None:
        return UNKNOWN
    whole = round(number)
    return f"{whole:,}" if abs(whole) < 1000 else significant(whole)


def tokens(number: float | None) -> str:
    """A number of tokens that was counted: `10.45 M`, `138 M`, `4.40 k`, `512`."""
    # Two more digits between 10 and 100 M, where budgets are: 10.45 M and 10.70 M must not look alike.
    return _scaled(number, 4)


def about_tokens(number: float | None) -> str:
    """A number of tokens that was estimated, three significant digits: `15.0 M`, `9.82 M`."""
    return _scaled(number, 3)


def _scaled(number: float | None, digits: int) -> str:
    if number is None:
        return UNKNOWN
    if number < 0:
        return "-" + _scaled(-number, digits)
    for scale, unit in _UNITS:
        # 999,999 is 1.00 M: the unit is chosen by what will be printed, not by the raw value.
        if number >= scale * 0.9995 and number >= 1000:
            scaled = number / scale
            return significant(scaled, digits if scale == 10**6 and 9.995 <= scaled < 99.995 else 3) + unit
    return f"{round(number)}"


def limit(number: float | None) -> str:
    """A round limit without trailing zeros: `10 M`, `500 k`, `10.5 M`, `none` for 0."""
    if number is None:
        return UNKNOWN
    if number == 0:
        return "none"
    for scale, unit in _UNITS:
        if number >= scale:
            return f"{number / scale:,.3f}".rstrip("0").rstrip(".") + unit
    return f"{round(number)}"


def duration(seconds: float | None) -> str:
    """A span of time: `0.4 s`, `42 s`, `8 m 05 s`, `8 h 27 m`, `3 d 04 h`. A negative one is `0 s`."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02d} s"
    minutes = round(seconds / 60)
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} m"
    hours = round(seconds / 3600)
    return f"{hours // 24} d {hours % 24:02d} h"


def size(number_bytes: float | None) -> str:
    """A number of bytes in decimal units: `390 MB`, `1.40 GB`, `812 B`."""
    if number_bytes is None:
        return UNKNOWN
    for scale, unit in ((10**12, " TB"), (10**9, " GB"), (10**6, " MB"), (10**3, " kB")):
        if number_bytes >= scale * 0.9995:
            return significant(number_bytes / scale) + unit
    return f"{round(number_bytes)} B"


def percent(part: float | None, whole: float | None) -> str:
    """A share: `104 %`, `0.3 %`. Rounded down, so that 100 % means reached."""
    if part is None or not whole:
        return UNKNOWN
    share = 100 * part / whole
    # The nudge keeps 0.29 % from being printed 0.2 % because 0.29 has no exact binary form.
    floored = math.floor(share * 10 + 1e-9) / 10 if 0 < share < 9.95 else float(math.floor(share + 1e-9))
    return f"{floored:.1f}".removesuffix(".0") + " %"


def rate(tokens_s: float | None) -> str:
    """A speed in tokens a second: `590/s`, `4.2/s`."""
    if tokens_s is None:
        return UNKNOWN
    return f"{about(tokens_s)}/s" if tokens_s >= 9.95 or tokens_s == 0 else f"{tokens_s:.1f}/s"


def hours(number: float | None, unit: str = "h") -> str:
    """Hours or GPU-hours as one number: `27.1 h`, `215 GPU-h`, `0.4 GPU-h`."""
    if number is None:
        return UNKNOWN
    return f"{significant(number, 2 if number < 10 else 3)} {unit}" if number else f"0 {unit}"


def plural(number: int, word: str) -> str:
    """`1 dataset`, `6 datasets`."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def _at(epoch_s: float, zone: tzinfo) -> datetime | None:
    try:
        return datetime.fromtimestamp(epoch_s, zone)
    except (OverflowError, ValueError, OSError):
        return None


def clock(epoch_s: float | None, zone: tzinfo = UTC) -> str:
    """The time of day, `03:12:44`; seconds since 1970 in, `–` for what is no time."""
    then = None if epoch_s is None else _at(epoch_s, zone)
    return UNKNOWN if then is None else then.strftime("%H:%M:%S")


def moment(epoch_s: float | None, now: float, zone: tzinfo = UTC) -> str:
    """A point in time as short as it can be told apart: `02:10` today, `Nov 30 22:10`, `2025-11-30`."""
    then = None if epoch_s is None else _at(epoch_s, zone)
    today = _at(now, zone)
    if then is None or today is None:
        return UNKNOWN
    if then.date() == today.date():
        return then.strftime("%H:%M")
    if abs(today - then) < timedelta(days=180):
        return f"{then:%b} {then.day} {then:%H:%M}"
    return then.strftime("%Y-%m-%d")
