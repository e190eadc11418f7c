"""A real terminal for a real process: a pty with a screen behind it that a test can read."""

from __future__ import annotations

import fcntl
import functools
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyte

ROOT = Path(__file__).parent.parent.parent


class Terminal:
    """Runs a command on a pty of `columns` × `lines`; keeps all that it wrote in `raw` and shows it on `screen`.

    With `nohup` the command starts with the hang-up ignored.
    """

    def __init__(
        self,
        command: Sequence[str],
        size: tuple[int, int] = (120, 36),
        environment: Mapping[str, str] | None = None,
        nohup: bool = False,
    ) -> None:
        self.master, slave = pty.openpty()
        self.resize(*size, tell=False)
        self.before = termios.tcgetattr(slave)
        self.raw = bytearray()
        self.screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self.screen)
        base = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
        base |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
        self.process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=ROOT,
            env={**base, **(environment or {})},
            preexec_fn=functools.partial(_own_terminal, nohup),
        )
        self._slave = slave

    @classmethod
    def console(cls, *arguments: str, **more: object) -> Terminal:
        """The console over a recording: see tests/pty/program.py."""
        return cls([sys.executable, "-m", "tests.pty.program", *arguments], **more)  # type: ignore[arg-type]

    @property
    def text(self) -> str:
        """What stands on the screen."""
        # Not `screen.display`: it trips over half of a wide character that was drawn over.
        return "\n".join(self.line(y) for y in range(self.screen.lines))

    def line(self, y: int) -> str:
        """What stands on one line; the second cell of a wide character is empty."""
        return "".join(self.screen.buffer[y][x].data for x in range(self.screen.columns))

    def type(self, keys: str | bytes) -> None:
        """Press keys."""
        os.write(self.master, keys.encode() if isinstance(keys, str) else keys)

    def resize(self, columns: int, lines: int, tell: bool = True) -> None:
        """Another size of the terminal; the process gets SIGWINCH."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        if tell:
            self.screen.resize(lines, columns)

    def read(self, deadline_s: float = 0.05) -> bool:
        """Take what has been written; False at its end."""
        if not select.select([self.master], [], [], deadline_s)[0]:
            return True
        try:
            data = os.read(self.master, 1 << 16)
        except OSError:
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)

    def until(self, holds: Callable[[], bool], deadline_s: float = 30.0) -> None:
        """Read until something holds; fails with what is on the screen."""
        end = time.monotonic() + deadline_s
        while not holds():
            assert time.monotonic() < end, f"it did not come:\n{self.text}"
            self.read()

    def wait(self, deadline_s: float = 30.0) -> int:
        """Read until the process has ended; its exit code."""
        self.until(lambda: self.process.poll() is not None, deadline_s)
        while select.select([self.master], [], [], 0)[0] and self.read():
            pass
        return self.process.returncode

    def settings(self) -> list:
        """The terminal's settings now."""
        return termios.tcgetattr(self._slave)

    def hang_up(self) -> None:
        """Close the terminal's other end, as a closed window does."""
        os.close(self._slave)
        os.close(self.master)
        self.master = self._slave = -1

    def close(self) -> None:
        """End the process if it is there, and close the pty."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(10)
        for fd in (self.master, self._slave):
            if fd >= 0:
                os.close(fd)


def _own_terminal(nohup: bool) -> None:
    # Whoever runs the tests may ignore the hang-up themselves: it is not for them to say.
    signal.signal(signal.SIGHUP, signal.SIG_IGN if nohup else signal.SIG_DFL)
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
