"""What a plan is made of: the steps that were looked at, and the problems they found."""

from __future__ import annotations

from dataclasses import dataclass

OK = "ok"
BYPASSED = "bypassed"
SKIP = "skip"
NOTE = "note"
WARNING = "warning"
BLOCKED = "blocked"


@dataclass(frozen=True)
class Step:
    """One rule that was looked at: what it found (`outcome`, one of the words above), why, and on what evidence."""

    check: str
    outcome: str
    because: str
    evidence: str = ""

    def to_json(self) -> dict[str, str]:
        """As in `plan --json`."""
        return {"check": self.check, "outcome": self.outcome, "because": self.because, "evidence": self.evidence}


@dataclass(frozen=True)
class Problem:
    """Something an operator should know: `level` is blocked, warning or note; `code` is what `--accept` takes."""

    level: str
    code: str
    message: str

    def to_json(self) -> dict[str, str]:
        """As in `plan --json`."""
        return {"level": self.level, "code": self.code, "message": self.message}


class Findings:
    """Collects the steps and problems of one dataset while its rules are asked, in order."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.problems: list[Problem] = []

    def step(self, check: str, outcome: str, because: str, evidence: str = "") -> None:
        """Leave a step."""
        self.steps.append(Step(check, outcome, because, evidence))

    def problem(self, level: str, code: str, message: str) -> None:
        """Note a problem."""
        self.problems.append(Problem(level, code, message))
