"""The errors an operator meets: one clear line, what is wrong, where, what to do next."""

from __future__ import annotations

from remote.exitcodes import ExitCode


class OperatorError(Exception):
    """An expected failure, told in one line and never as a traceback.

    `code` is a short stable name (`no-root`, `lock-held`) that scripts and `--accept` use;
    `message` says what is wrong and where; `remedy` says what to do next, or is empty.
    """

    def __init__(
        self,
        code: str,
        message: str,
        remedy: str = "",
        exit_code: ExitCode = ExitCode.FAILED,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.remedy = remedy
        self.exit_code = exit_code

    def __str__(self) -> str:
        return f"{self.message}; {self.remedy}" if self.remedy else self.message

    def to_json(self) -> dict[str, object]:
        """The error as it crosses a pipe; `from_json` is its inverse."""
        return {
            "code": self.code,
            "message": self.message,
            "remedy": self.remedy,
            "exit_code": int(self.exit_code),
        }

    @classmethod
    def from_json(cls, value: dict[str, object]) -> OperatorError:
        """Rebuild an error that `to_json` wrote; unknown exit codes become FAILED, and so does DONE: no error is a success."""
        raw = value.get("exit_code")
        known = {int(code) for code in ExitCode if code is not ExitCode.DONE}
        exit_code = ExitCode(raw) if isinstance(raw, int) and raw in known else ExitCode.FAILED
        return cls(
            str(value.get("code") or "error"),
            str(value.get("message") or "unknown error"),
            str(value.get("remedy") or ""),
            exit_code,
        )
