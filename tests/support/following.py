"""A program that prints lines for as long as it runs, followed by a test."""

from __future__ import annotations

import signal
import subprocess
import threading


class Following:
    """A program that goes on (`watch`, `logs -f`): its lines so far, and its end."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.out: list[str] = []
        self.err: list[str] = []
        self.threads = [
            threading.Thread(target=lines.extend, args=(stream,), daemon=True)
            for stream, lines in ((process.stdout, self.out), (process.stderr, self.err))
        ]
        for thread in self.threads:
            thread.start()

    def said(self, words: str, times: int = 1) -> bool:
        """Whether its lines have these words that often."""
        return sum(words in line for line in [*self.out, *self.err]) >= times

    def end(self, number: int = signal.SIGTERM) -> int:
        """Signal it; its exit status."""
        self.process.send_signal(number)
        code = self.process.wait(10)
        for thread in self.threads:
            thread.join()
        return code
