"""What the generator says in run.log: a line per event and a line a minute per dataset in work, none per answer."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

from remote.layout import dataset_id
from remote.text import clean


class RunLog:
    """Lines for a person, on standard error: `2026-07-29 03:15:00 B3 …`, container time with its zone once a run."""

    def __init__(self, secret: str | None = None) -> None:
        self._secret = secret

    def say(self, text: str, folder: str | None = None) -> None:
        """One event."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        line = clean(text, 1000)
        if self._secret:
            line = line.replace(self._secret, "***")
        print(f"{stamp} {dataset_id(folder) + ' ' if folder else ''}{line}", file=sys.stderr, flush=True)


def errors_line(errors: Mapping[str, int]) -> str:
    """Failures by kind, the most frequent first; empty when there were none."""
    ordered = sorted(errors.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,} {kind}" for kind, count in ordered)
