"""The exit codes of both programs, in one place."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a process's exit status means; `status --check` has the scale of `CheckCode`."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    STOPPED = 3
    """`generate` only: it was asked to stop and did."""
    REFUSED = 4
    """`generate` only: the engine refuses for good (401, 404, another model)."""
    DISK = 5
    """`generate` and `retokenize`: the disk is full, read-only or failing."""
    INTERRUPTED = 128 + 2
    """Ended by Ctrl-C before it was done, as shells count: 128 and the signal's number."""


class CheckCode(IntEnum):
    """The exit status of `status --check`, the scale of monitoring plugins."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3
    """Unreachable, unreadable, or wrong usage."""
