"""`exit.json`: how a run ended, in fields for programs and one sentence for an operator.

Exit 137 and SIGKILL alone are no proof of a lack of memory: that is said only when the kernel's
own count for this container rose meanwhile.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.runfile import Run
from remote.text import clean

_REASONS = {
    ExitCode.DONE: ("finished", "it did all that could be done"),
    ExitCode.STOPPED: ("stopped", "it stopped on request"),
    ExitCode.REFUSED: ("refused", "the engine refuses its requests for good"),
    ExitCode.DISK: ("disk", "the disk is full, read-only or failing"),
    ExitCode.USAGE: ("failed", "it was started with settings that it does not take"),
    ExitCode.FAILED: ("failed", "it could not do all of it: the last lines of its log say what"),
}


@dataclass(frozen=True)
class Death:
    """How a process ended: an exit code, or a signal; neither when it never began."""

    code: int | None
    signal: int | None


def exit_record(
    run: Run,
    death: Death,
    at: float,
    *,
    asked: Mapping[str, Any] | None = None,
    killed_by_us: bool = False,
    oom: bool | None = None,
    left: Sequence[Mapping[str, Any]] = (),
    lost_tokens: int | None = None,
    error: OperatorError | None = None,
) -> dict[str, Any]:
    """The content of `exit.json`.

    `asked` is the stop that was asked for, `oom` whether the cgroup's counter rose while it ran
    (None where there is none), `left` what of the group would not go, `lost_tokens` what was decoded in vain
    (None where nobody can tell), `at` in Unix seconds.
    """
    reason, detail = _reason(death, asked, killed_by_us, oom, error)
    return {
        "run": run.run_id,
        "code": death.code,
        "signal": death.signal,
        "at": at,
        "reason": reason,
        "detail": detail,
        "by": clean(asked.get("by") or "", 120) if asked else "",
        "mode": asked.get("mode") if asked else None,
        "oom": _oom(death, killed_by_us, oom),
        "lost_tokens": lost_tokens,
        "left": [dict(one) for one in left],
        "error": error.to_json() if error else None,
    }


def _reason(
    death: Death, asked: Mapping[str, Any] | None, killed_by_us: bool, oom: bool | None, error: OperatorError | None
) -> tuple[str, str]:
    if death.code is None and death.signal is None:
        return "not-started", clean(error, 500) if error else "it was never started"
    by = f" by {clean(asked.get('by'), 120)}" if asked and asked.get("by") else ""
    if death.signal is not None:
        name = _name(death.signal)
        if asked is not None:
            how = "killed" if killed_by_us else f"ended by {name}"
            return "stopped", f"{how} on request ({asked.get('mode')}{by})"
        if death.signal == signal.SIGKILL and oom:
            return "out-of-memory", "killed by the kernel: the container ran out of memory (its oom_kill count rose)"
        if death.signal == signal.SIGKILL:
            return "killed", f"killed by {name}; cause unknown"
        return "killed", f"ended by {name}"
    if error is not None:
        return "not-ready", clean(error, 500)
    assert death.code is not None
    known = death.code in {int(code) for code in ExitCode}
    reason, detail = _REASONS[ExitCode(death.code)] if known else ("failed", f"it failed with exit code {death.code}")
    return reason, f"{detail} ({asked.get('mode')}{by})" if asked and reason == "stopped" else detail


def _oom(death: Death, killed_by_us: bool, oom: bool | None) -> bool | None:
    if death.signal != signal.SIGKILL:
        return False
    return False if killed_by_us and not oom else oom


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
