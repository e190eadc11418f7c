"""Bars and sparklines as text, in eighths of a cell: a redraw costs a string."""

from __future__ import annotations

from collections.abc import Sequence

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_HEIGHTS = "▁▂▃▄▅▆▇"
"""Never a whole cell: sparklines one above the other must not run together."""
GAP = "·"
"""A moment of a sparkline for which there is no figure: not the same as a low one."""


def bar(share: float | None, width: int) -> str:
    """A bar of `width` cells filled to `share` (1.0 is full; more is drawn full, None is blank).

    A share above 0 shows at least an eighth of a cell and one below 1 never looks full:
    nothing done and a little done, nearly done and done are different news.
    """
    if share is None or width < 1:
        return " " * max(width, 0)
    most = width * 8
    eighths = min(most, max(0, round(share * most)))
    if share > 0:
        eighths = max(1, eighths)
    if share < 1:
        eighths = min(most - 1, eighths)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(width)


def sparkline(values: Sequence[float | None], width: int, top: float | None = None) -> str:
    """The figures as `width` columns, the newest last; a short series begins at the left, beside its name.

    `top` fixes the scale (100 for percent); without it the highest value fills the height.
    More values than columns are averaged in equal groups; None leaves a `·`.
    """
    if width < 1:
        return ""
    groups = _regroup(values, width)
    known = [value for value in groups if value is not None]
    ceiling = top if top is not None else max(known, default=0.0)
    out = []
    for value in groups:
        if value is None:
            out.append(GAP)
        elif ceiling <= 0 or value <= 0:
            out.append(_HEIGHTS[0])
        else:
            out.append(_HEIGHTS[min(6, int(value / ceiling * 6.999))])
    return "".join(out).ljust(width)


def _regroup(values: Sequence[float | None], width: int) -> list[float | None]:
    """At most `width` values, each the mean of the known ones of its group."""
    if len(values) <= width:
        return list(values)
    out: list[float | None] = []
    for column in range(width):
        group = values[column * len(values) // width : (column + 1) * len(values) // width]
        known = [value for value in group if value is not None]
        out.append(sum(known) / len(known) if known else None)
    return out
