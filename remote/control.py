"""What is changed while a generator runs: its budget, and whether it is paused. `.eagle3/control.json`.

The file belongs to one run, named in it: what was asked of an earlier one never holds for the next.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

from remote.errors import OperatorError
from remote.layout import Layout
from remote.options import Budget
from remote.runfile import read_object, write_object


@dataclass(frozen=True)
class Control:
    """What was asked: a `token_budget` of None leaves the run's own."""

    run: str | None = None
    token_budget: Budget | None = None
    paused: bool = False
    by: str = ""
    at: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The file's content."""
        budget = self.token_budget
        return {
            "run": self.run,
            "token_budget": {"default": budget.default, "per": dict(budget.per)} if budget is not None else None,
            "paused": self.paused,
            "by": self.by,
            "at": self.at,
        }


def _budget(value: object) -> Budget | None:
    if value is None:
        return None
    default = value.get("default") if isinstance(value, dict) else None
    per = value.get("per", {}) if isinstance(value, dict) else None
    numbers = [default, *per.values()] if isinstance(per, dict) else [None]
    if any(not isinstance(number, int) or isinstance(number, bool) or number < 0 for number in numbers):
        raise OperatorError("bad-control", "token_budget in control.json is no budget", "set the budget again")
    assert isinstance(default, int) and isinstance(per, dict)
    return Budget(default, {str(name): tokens for name, tokens in per.items()})


def read_control(layout: Layout, run: str | None = None) -> Control:
    """What is asked of `run` (of any run, when not given); nothing when there is no file or it is another run's.

    Raises OperatorError (`unreadable`, `bad-control`) when the file is damaged.
    """
    value = read_object(layout.control_json)
    if value is None:
        return Control(run)
    owner = value.get("run") if isinstance(value.get("run"), str) else None
    if run is not None and owner not in (None, run):
        return Control(run)
    at = value.get("at")
    return Control(
        run=owner,
        token_budget=_budget(value.get("token_budget")),
        paused=value.get("paused") is True,
        by=str(value.get("by") or ""),
        at=float(at) if isinstance(at, (int, float)) and not isinstance(at, bool) else None,
    )


def write_control(
    layout: Layout, token_budget: Budget | None = None, paused: bool | None = None, by: str = "", run: str | None = None
) -> Control:
    """Change the control file of `run`; what is not given stays as it is. Returns the new content. Raises OSError."""
    try:
        now = read_control(layout, run)
    except OperatorError:
        now = Control(run)
    control = Control(
        run=run if run is not None else now.run,
        token_budget=token_budget if token_budget is not None else now.token_budget,
        paused=now.paused if paused is None else paused,
        by=by,
        at=time.time(),
    )
    write_object(layout.control_json, control.to_json())
    return control


class ControlWatch:
    """Reads the file again when it changed: a stat a look, so that twice a second costs nothing."""

    def __init__(self, layout: Layout, run: str) -> None:
        self._layout = layout
        self._run = run
        self._mark: tuple[int, int, int] | None = None

    def changed(self) -> Control | None:
        """The new content, or None when it is as before. Raises OperatorError when it is damaged, once."""
        try:
            found = os.stat(self._layout.control_json)
        except FileNotFoundError:
            mark = None
        except OSError:
            return None
        else:
            mark = (found.st_mtime_ns, found.st_ino, found.st_size)
        if mark == self._mark:
            return None
        self._mark = mark
        return read_control(self._layout, self._run)
