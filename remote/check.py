"""One row of the preflight: what was checked, how it stands, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from remote.options import Options

OK = "ok"
WARNING = "warning"
BLOCKER = "blocker"


@dataclass(frozen=True)
class Check:
    """`level` is ok, warning or blocker; `check` is what `--accept` takes; `remedy` is a command where there is one."""

    check: str
    level: str
    detail: str
    remedy: str = ""

    def to_json(self) -> dict[str, str]:
        """As in `plan --json`."""
        return {"check": self.check, "level": self.level, "detail": self.detail, "remedy": self.remedy}


def apply_accept(check: Check, options: Options) -> Check:
    """A blocker that `--accept` names becomes a warning that says so; every other one prints how to accept it."""
    if check.level != BLOCKER:
        return check
    if check.check in options.accept:
        return replace(check, level=WARNING, detail=f"{check.detail} (accepted)", remedy="")
    accept = f"--accept {check.check}"
    return replace(check, remedy=f"{check.remedy}; or {accept}" if check.remedy else accept)
