"""From a shell's stdin and stdout to a running agent, on any container that has `/bin/sh` and a Python 3.10.

The command line holds no quote, backslash, newline or exclamation mark inside its single quotes, so that sh, bash,
zsh, fish and csh pass it on alike; nothing from outside is pasted into it. What varies travels on stdin: the marker,
the wished Python, stage 0 (`remote/stage0.py`, as base64 on one line), then the zip if it is asked for.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import logging
import re
import secrets
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import remote.stage0
from console.link_errors import (
    AgentDied,
    DigestWrong,
    LinkError,
    NoPython,
    NoRoom,
    ShellEnded,
    StartTimeout,
    TerminalOnly,
    VersionDiffers,
)
from console.pipe import AgentPipe, Channel, LineSplitter, Noise
from console.ship import Package
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.text import clean

log = logging.getLogger("eagle3.link")

START_LIMIT_S = 30.0
"""Longest silence of the login shell, its start-up files and Python together."""
SEND_LIMIT_S = 120.0
"""Longest time for the zip: a quarter of a megabyte over 32 kbit/s takes one minute."""
STAGE0_WAIT_S = 150
LOOK_EVERY_S = 1.0

_PLACES = (
    "python3 python3.14 python3.13 python3.12 python3.11 python3.10 /usr/bin/python3 /usr/local/bin/python3 "
    '/opt/conda/bin/python3 /opt/venv/bin/python3 /venv/main/bin/python3 "$HOME"/miniconda3/bin/python3 '
    '"$HOME"/.pyenv/versions/*/bin/python3 /opt/*/bin/python3'
)
_PROBE = "import sys;print(sys.version_info>=(3,10) and sys.executable or sys.version_info[:3])"
_LOADER = "import base64,io,zlib;exec(zlib.decompress(base64.b64decode(io.FileIO(0,closefd=False).readline())))"
_SCRIPT = (
    "IFS= read -r mark; IFS= read -r want; tried=; "
    'case "$want" in "~/"*) want="$HOME/${want#??}";; esac; '
    f'for p in "$want" {_PLACES}; do '
    '[ -n "$p" ] || continue; '
    # `env` starts a program and no alias or function; -E keeps PYTHONHOME and the like out.
    f'v=$(env "$p" -E -S -c "{_PROBE}" </dev/null 2>/dev/null); '
    f'case "$v" in /*) exec "$v" -I -S -c "{_LOADER}";; esac; '
    'tried="$tried|$p=$v"; done; '
    'echo; echo "$mark nopython $tried"; exit 127'
)
SHELL_ARGV = ("/bin/sh", "-c", _SCRIPT)
"""What `local` runs without any login shell in between."""
COMMAND = f"exec /bin/sh -c '{_SCRIPT}'"
"""What SSH hands to the login shell."""

_TERMINAL_ONLY = re.compile(
    rb"doesn.t support PTY|does not support PTY|PTY allocation|requires? a (?:PTY|pseudo-?terminal|TTY)", re.I
)


def check_python(path: str | None) -> str:
    """The wished Python as one line for the shell's `read`. Raises OperatorError for a path that cannot be one."""
    if path is not None and ("\n" in path or path.startswith("-") or "\0" in path):
        raise OperatorError(
            "usage", f"--python {clean(path)!r} is not a path", "write /opt/conda/bin/python3", ExitCode.USAGE
        )
    return path or ""


def stage0_line(order: dict[str, Any]) -> bytes:
    """Stage 0 and its order, as the one line that the loader reads."""
    text = f"{inspect.getsource(remote.stage0)}\nimport json\nrun(json.loads({json.dumps(order)!r}))\n"
    return base64.b64encode(zlib.compress(text.encode(), 9)) + b"\n"


async def start_agent(
    channel: Channel,
    package: Package,
    *,
    python: str | None = None,
    arguments: Sequence[str] = ("agent",),
    on_stage: Callable[[str], None] = lambda stage: None,
    start_limit_s: float = START_LIMIT_S,
) -> AgentPipe:
    """Carry out the handshake over a channel on which `COMMAND` was just started.

    Returns the pipe once the agent said ready. Raises a LinkError for every way in which that
    can fail; the channel is the caller's to close then.
    """
    marker = f"e3-{secrets.token_hex(8)}"
    order = {
        "marker": marker,
        "name": package.name,
        "digest": package.digest,
        "bytes": len(package.data),
        "packed_bytes": len(package.packed),
        "arguments": [*arguments, "--marker", marker],
        "wait_s": STAGE0_WAIT_S,
    }
    talk = _Handshake(channel, marker, python, start_limit_s)
    on_stage("starting the helper")
    await talk.send(f"{marker}\n{check_python(python)}\n".encode() + stage0_line(order), start_limit_s)
    stage0 = await talk.expect("stage0", "the login shell or Python", start_limit_s)
    place = stage0.get("place") or None
    sent = not stage0.get("have")
    if sent:
        on_stage(f"sending the helper ({len(package.packed) // 1024} kB)")
        await talk.send(package.packed, SEND_LIMIT_S)
        place = (await talk.expect("stored", "the store of the helper", SEND_LIMIT_S)).get("place")
    ready = await talk.expect("ready", "the helper", start_limit_s)
    for line in talk.noise.lines():
        log.debug("%s printed before: %s", channel.where, line)
    log.debug("helper %s at %s, python %s, sent now: %s", ready.get("release"), place, stage0.get("python"), sent)
    theirs = str(ready.get("release", package.release))
    if theirs != package.release:
        raise VersionDiffers(channel.where, package.release, theirs)
    return AgentPipe(
        channel,
        talk.splitter,
        talk.pending,
        ready=ready,
        noise=talk.noise.lines(),
        python=clean(stage0.get("python", ""), 40),
        release=package.release,
        place=clean(place, 400) if place else None,
        sent=sent,
    )


class _Handshake:
    """The lines before ours begin: noise is kept aside, ours are found by the marker."""

    def __init__(self, channel: Channel, marker: str, python: str | None, limit_s: float) -> None:
        self.splitter = LineSplitter()
        self.pending: list[bytes] = []
        self.noise = Noise()
        self._channel = channel
        self._marker = marker.encode()
        self._python = python
        self._started = False
        self._terminal_only = False

    async def send(self, data: bytes, limit_s: float) -> None:
        """Write with a deadline. A shell that ended already is found when its output is read."""
        try:
            async with asyncio.timeout(limit_s):
                await self._channel.write(data)
        except TimeoutError:
            raise StartTimeout(self._channel.where, limit_s, "its input", self.noise.lines()) from None

    async def expect(self, word: str, who: str, limit_s: float) -> dict[str, Any]:
        """The facts of the line `MARKER word {…}`. Raises a LinkError for every other end."""
        try:
            async with asyncio.timeout(limit_s):
                while True:
                    found, facts = await self._next()
                    if found == word:
                        self._started = True
                        return facts
                    if found in ("failed", "nopython"):
                        raise self._failure(found, facts)
        except TimeoutError:
            raise StartTimeout(self._channel.where, limit_s, who, self._printed()) from None

    async def _next(self) -> tuple[str, dict[str, Any]]:
        while True:
            while self.pending:
                line = self.pending.pop(0)
                ours = self._parse(line)
                if ours is not None:
                    return ours
                if line.strip():
                    self.noise.add(line)
                    self._terminal_only |= bool(_TERMINAL_ONLY.search(line))
                    if self._marker in line:
                        # It was taken for a command, or echoed: what reads our input is not what we started.
                        raise self._replaced()
            try:
                async with asyncio.timeout(LOOK_EVERY_S):
                    data = await self._channel.read()
            except TimeoutError:
                # A shell that took our lines for commands says so on its error output, and waits for more.
                if any(self._marker.decode() in line for line in self._channel.errors()):
                    raise self._replaced() from None
                continue
            if not data:
                raise await self._ended()
            self.pending += self.splitter.feed(data)

    def _replaced(self) -> LinkError:
        return ShellEnded(self._channel.where, "a start-up file replaced it by another program", self._printed())

    def _parse(self, line: bytes) -> tuple[str, dict[str, Any]] | None:
        marker, _, rest = line.partition(b" ")
        if marker != self._marker:
            return None
        word, _, body = rest.partition(b" ")
        if word == b"nopython":
            return "nopython", {"tried": body.decode("utf-8", "replace")}
        try:
            facts = json.loads(body)
        except (ValueError, RecursionError):
            return None
        return (word.decode("ascii", "replace"), facts) if isinstance(facts, dict) else None

    def _failure(self, word: str, facts: dict[str, Any]) -> LinkError:
        where = self._channel.where
        if word == "nopython":
            return NoPython(where, read_tried(str(facts["tried"])), self._python)
        code, detail = facts.get("code"), str(facts.get("detail", ""))
        if code == "room":
            return NoRoom(where, detail)
        if code in ("digest", "short"):
            return DigestWrong(where, detail)
        return ShellEnded(where, f"Python could not start it: {clean(detail)}", self._printed())

    async def _ended(self) -> LinkError:
        self.noise.add(self.splitter.rest())
        how = await self._channel.ending()
        printed = self._printed()
        if self._terminal_only or any(_TERMINAL_ONLY.search(line.encode()) for line in printed):
            return TerminalOnly(self._channel.where, printed)
        if self._started:
            return AgentDied(self._channel.where, how, self._channel.errors())
        return ShellEnded(self._channel.where, how, printed)

    def _printed(self) -> list[str]:
        return [*self.noise.lines(), *self._channel.errors()]


def read_tried(text: str) -> list[tuple[str, str]]:
    """`|python3=(3, 9, 2)|/usr/bin/python3=` as pairs of a path and its version, empty where it does not start."""
    pairs = []
    for part in text.split("|"):
        path, _, answer = part.strip().rpartition("=")
        numbers = re.findall(r"\d+", answer)
        if path and "*" not in path:
            pairs.append((clean(path, 120), ".".join(numbers[:3])))
    return pairs
