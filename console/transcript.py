"""The transcript that `--debug` shows: what the link did, step by step, without what it carried.

Names, addresses, stages, key fingerprints, exit states and the login shell's noise; no passphrase, key, parameter
or answer is ever logged, so there is nothing to mask. Every line is cleaned: it quotes outside text.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import platformdirs

from remote.errors import OperatorError
from remote.text import clean

LOGGERS = ("eagle3", "asyncssh")
_MARK = "eagle3-transcript"


def default_file() -> Path:
    """Where the transcript of a console with a screen lies."""
    return platformdirs.user_state_path("eagle3-console") / "debug.log"


class _Cleaned(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"{self.formatTime(record)} {record.name}: {clean(record.getMessage(), 500)}"


def start_transcript(path: Path | None = None) -> None:
    """Write what the link does to a private file, or to stderr when no path is given; once, however often called.

    Raises OperatorError when the file cannot be written.
    """
    handler: logging.Handler
    if path is None:
        handler = logging.StreamHandler(sys.stderr)
    else:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise OperatorError("transcript", f"the transcript {path} cannot be written: {error.strerror}") from None
        handler = logging.StreamHandler(open(fd, "a", encoding="utf-8"))  # noqa: SIM115
    handler.set_name(_MARK)
    handler.setFormatter(_Cleaned())
    for name, level in zip(LOGGERS, (logging.DEBUG, logging.INFO), strict=True):
        logger = logging.getLogger(name)
        if not any(one.get_name() == _MARK for one in logger.handlers):
            logger.addHandler(handler)
            logger.setLevel(level)
        logger.propagate = False
