"""The parameters of a request, read strictly: a wrong one is refused by name, before anything is done."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.options import Options
from remote.text import clean


class Params:
    """The object that came with a request. Every reader raises OperatorError (`usage`) on a value of the wrong type."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def text(self, key: str, default: str | None = None, limit: int = 100_000) -> str:
        """A string; missing without a default is wrong."""
        value = self._values.get(key, default)
        if not isinstance(value, str) or len(value) > limit:
            raise self._wrong(key, "text")
        return value

    def flag(self, key: str) -> bool | None:
        """True, false or missing."""
        value = self._values.get(key)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number; missing without a default is wrong."""
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise self._wrong(key, "a number")
        return float(value)

    def count(self, key: str, default: int | None = None) -> int:
        """A whole number of 0 or more; missing without a default is wrong."""
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self._wrong(key, "a whole number of 0 or more")
        return value

    def counts(self, key: str) -> list[int]:
        """A list of whole numbers; missing is empty."""
        value = self._values.get(key) or []
        if not isinstance(value, list) or any(isinstance(item, bool) or not isinstance(item, int) for item in value):
            raise self._wrong(key, "a list of whole numbers")
        return list(value)

    def object(self, key: str) -> dict[str, Any] | None:
        """An object or None."""
        value = self._values.get(key)
        if value is not None and not isinstance(value, dict):
            raise self._wrong(key, "an object")
        return value

    def objects(self, key: str) -> list[dict[str, Any]]:
        """A list of objects; missing is empty."""
        value = self._values.get(key) or []
        if not isinstance(value, list) or any(not isinstance(item, dict) for item in value):
            raise self._wrong(key, "a list of objects")
        return list(value)

    def options(self) -> Options:
        """The options that the request is about. Raises OperatorError, also for a value that they do not allow."""
        value = self.object("options")
        if value is None:
            raise self._wrong("options", "an object")
        return Options.from_json(value)

    def by(self) -> str:
        """Who asks, as the audit names them."""
        return clean(self.text("by", "", 1000), 200) or "unknown"

    def _wrong(self, key: str, wanted: str) -> OperatorError:
        return OperatorError(
            "usage",
            f"the request's {key!r} should be {wanted}, not {clean(repr(self._values.get(key)), 80)}",
            "the two ends may be of different releases: connect anew to ship this one",
            ExitCode.USAGE,
        )
