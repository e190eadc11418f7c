"""When an alert is raised: one table of numbers with their units, settable per profile (`[profiles.NAME.thresholds]`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Any

from remote.errors import OperatorError
from remote.exitcodes import ExitCode


@dataclass(frozen=True)
class Thresholds:
    """Shares are between 0 and 1, times in seconds, sizes in bytes."""

    no_answer_s: float = 600.0
    """A running generator that has written nothing for so long is stalled."""
    progress_silent_s: float = 60.0
    """A running generator that says nothing at all (progress.json) for so long hangs."""
    error_share: float = 0.2
    """Failed requests among all of the last ten minutes."""
    engine_unhealthy_s: float = 45.0
    """How long the engine must be unwell, with health asked every 15 s, before anybody is called."""
    gpu_idle_share: float = 0.1
    gpu_idle_s: float = 300.0
    length_share: float = 0.3
    no_eos_share: float = 0.05
    no_think_share: float = 0.5
    prompt_mismatch_share: float = 0.01
    least_answers: int = 20
    """Fewer answers than these say nothing about a share."""
    disk_free_bytes: float = 2e9
    """Less free space than this is an alert by itself."""
    skew_s: float = 30.0
    stale_s: float = 60.0
    """A link that has been down or silent for so long is an alert and not only a mark on the screen."""


def read_thresholds(table: Mapping[str, Any], where: str) -> Thresholds:
    """Thresholds from a settings table; what is not given keeps its default.

    `where` names the file and table. Raises OperatorError (usage) that names key, value and what is allowed.
    """
    known = {item.name: item for item in fields(Thresholds)}
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            near = get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise OperatorError("usage", f"{where}: there is no threshold {key!r}", hint, ExitCode.USAGE)
        highest = 1.0 if key.endswith("_share") else 1e15
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= highest:
            allowed = "a number from 0 to 1" if highest == 1.0 else "a number of 0 or more"
            raise OperatorError("usage", f"{where}: {key} = {value!r} is not {allowed}", "", ExitCode.USAGE)
        values[key] = int(value) if key == "least_answers" else float(value)
    return replace(Thresholds(), **values)
