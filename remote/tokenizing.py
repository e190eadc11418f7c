"""Finished datasets are tokenized in child processes, one after another, while the engine goes on with the next ones."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from remote.exitcodes import ExitCode
from remote.lock import LOCK_FD
from remote.options import TABLE, Budget, Options
from remote.release import archive_path
from remote.text import clean

_TERM_WAIT_S = 10.0


def option_words(options: Options) -> list[str]:
    """The command-line words that give a child the same options: those that differ from the defaults."""
    plain = Options()
    words: list[str] = []
    for option in TABLE:
        if option.side != "both" or not hasattr(options, option.name):
            continue
        value = getattr(options, option.name)
        if value == getattr(plain, option.name):
            continue
        if option.switch:
            words.append(option.flag)
        elif option.many:
            words += [word for item in value for word in (option.flag, str(item))]
        else:
            words += [option.flag, _word(value)]
    return words


def _word(value: Any) -> str:
    if isinstance(value, Budget):
        return str(value)
    if isinstance(value, tuple):
        return ",".join(str(item) for item in value)
    if isinstance(value, Mapping):
        return json.dumps(dict(value))
    return str(value)


def program() -> list[str]:
    """How this program is run again: the Python that runs it, and the zip or the package it was started from."""
    archive = archive_path()
    return [sys.executable, str(archive)] if archive is not None else [sys.executable, "-m", "remote"]


class Tokenizing:
    """The queue of finished datasets; `say` is told of each outcome. Use inside an event loop."""

    def __init__(self, options: Options, lock_fd: int, say: Callable[[str, str], None]) -> None:
        self._options = options
        self._lock_fd = lock_fd
        self._say = say
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._worker: asyncio.Task[None] | None = None
        self._child: asyncio.subprocess.Process | None = None
        self.folder: str | None = None
        """The dataset that is being tokenized now."""
        self.failed: list[str] = []
        self.worst = ExitCode.DONE
        """FAILED when a child failed, DISK when the disk was the reason."""
        self._waiting = 0

    @property
    def idle(self) -> bool:
        """Whether nothing is waiting or being tokenized."""
        return self._waiting == 0

    def add(self, folder: str) -> None:
        """Tokenize a dataset when its turn comes."""
        self._queue.put_nowait(folder)
        self._waiting += 1
        if self._worker is None:
            self._worker = asyncio.create_task(self._work(), name="tokenizing")

    async def finish(self) -> None:
        """Wait until all that was added is done."""
        await self._queue.join()

    async def stop(self) -> None:
        """Drop what waits and end the child: its rebuild lies beside the file, nothing is lost."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)
            self._worker = None
        child = self._child
        if child is None or child.returncode is not None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            child.send_signal(number)
            try:
                await asyncio.wait_for(child.wait(), _TERM_WAIT_S)
                return
            except asyncio.TimeoutError:
                continue

    async def _work(self) -> None:
        while True:
            folder = await self._queue.get()
            self.folder = folder
            try:
                await self._tokenize(folder)
            finally:
                self.folder = None
                self._waiting -= 1
                self._queue.task_done()

    async def _tokenize(self, folder: str) -> None:
        command = [*program(), "retokenize", *option_words(replace(self._options, datasets=(folder,)))]
        environment = {**os.environ, LOCK_FD: str(self._lock_fd)}
        for name in ("EAGLE3_READY_FD", "EAGLE3_API_KEY"):
            environment.pop(name, None)
        try:
            self._child = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environment,
                pass_fds=(self._lock_fd,),
            )
            out, errors = await self._child.communicate()
        except OSError as error:
            self._failed(folder, ExitCode.FAILED, f"tokenizing could not be started: {error.strerror}")
            return
        said = [
            clean(line, 400) for line in (out + b"\n" + errors).decode("utf-8", "replace").split("\n") if line.strip()
        ]
        if self._child.returncode:
            code = ExitCode.DISK if self._child.returncode == ExitCode.DISK else ExitCode.FAILED
            self._failed(folder, code, f"tokenizing failed: {said[-1] if said else f'exit {self._child.returncode}'}")
        else:
            told = said[0].removeprefix(folder).strip() if said else "nothing to say"
            self._say(f"tokenized: {told}", folder)

    def _failed(self, folder: str, code: ExitCode, text: str) -> None:
        self.failed.append(folder)
        self.worst = max(self.worst, code)
        self._say(text, folder)
