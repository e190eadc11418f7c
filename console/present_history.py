"""The night as series: `history.jsonl` rows to one value a minute, with gaps where there was none. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MINUTE_S = 60.0


@dataclass(frozen=True)
class History:
    """Series of equal length, the newest last, one value a minute; None where nothing was recorded."""

    start: float
    minutes: int
    total: tuple[float | None, ...]
    rates: Mapping[str, tuple[float | None, ...]]
    gpus: tuple[tuple[float | None, ...], ...]
    in_flight: tuple[float | None, ...]


EMPTY_HISTORY = History(0.0, 0, (), {}, (), ())


def history_of(rows: Sequence[Mapping[str, Any]], until: float, minutes: int = 12 * 60) -> History:
    """The last `minutes` before `until`. Rows of a wrong shape count as nothing recorded."""
    start = until - minutes * MINUTE_S
    places: list[Mapping[str, Any] | None] = [None] * minutes
    first = minutes
    for row in rows:
        at = _number(row.get("at"))
        if at is not None and start <= at < until:
            place = int((at - start) / MINUTE_S)
            places[place] = row
            first = min(first, place)
    # What was before the first record is not a gap in it.
    places = places[first:]
    folders = sorted({str(name) for row in places if row for name in _mapping(row, "rates")})
    return History(
        start=start + first * MINUTE_S,
        minutes=len(places),
        total=tuple(_number(row.get("rate_tokens_s")) if row else None for row in places),
        rates={
            folder: tuple(_number(_mapping(row, "rates").get(folder)) if row else None for row in places)
            for folder in folders
        },
        gpus=_gpu_series(places),
        in_flight=tuple(_number(row.get("in_flight")) if row else None for row in places),
    )


def _gpu_series(places: Sequence[Mapping[str, Any] | None]) -> tuple[tuple[float | None, ...], ...]:
    indexes = sorted({int(index) for row in places if row for index in _gpus(row)})
    return tuple(tuple(_gpus(row).get(index) if row else None for row in places) for index in indexes)


def _gpus(row: Mapping[str, Any]) -> dict[int, float | None]:
    gpus = row.get("gpus")
    found: dict[int, float | None] = {}
    for gpu in gpus if isinstance(gpus, list) else ():
        if isinstance(gpu, dict) and isinstance(gpu.get("index"), int):
            found[gpu["index"]] = _number(gpu.get("utilisation"))
    return found


def _mapping(row: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = row.get(key)
    return value if isinstance(value, dict) else {}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
