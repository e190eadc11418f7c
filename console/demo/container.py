"""The stand-in container: an SSH server, a stand-in engine, the incident's data and the older script.

It is a process of its own that outlives the console. `start` returns once everything answers;
it lasts until `stop`, or until nobody was connected for an hour.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import console
from console.demo import state as demo_state
from console.demo.state import DemoInfo, DemoState
from remote.errors import OperatorError
from remote.identity import alive, identify, send
from remote.text import clean

START_LIMIT_S = 120.0
ENGINE_LIMIT_S = 30.0
UNUSED_LIMIT_S = 3600.0

MEAN_TOKENS, SIGMA = 2_700.0, 0.6
"""Lengths of the stand-in's answers: between the incident's datasets, whose means run from 900 to 5,000."""
OLDER_CONCURRENCY = 1
"""One at a time, so that the incident is still there when an operator has read what it is (20 minutes at speed 1)."""
_SOURCES = Path(console.__file__).parent.parent


def info(state_dir: Path | None = None) -> DemoInfo | None:
    """The running demo, or None."""
    found = demo_state.read_state(state_dir or demo_state.default_folder())
    return found.info if found is not None and alive(found.daemon) else None


def start(
    state_dir: Path | None = None,
    *,
    reset: bool = False,
    speed: float = 1.0,
    seed: int = 1,
    unused_s: float = UNUSED_LIMIT_S,
    bare: bool = False,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> DemoInfo:
    """The running demo, started in the state of the incident if there is none, or anew with `reset`.

    `speed` multiplies the engine's tokens per second; `bare` leaves the root empty, without data,
    model and older script. Takes a few seconds when it starts.
    Raises OperatorError that says which part did not start.
    """
    folder = state_dir or demo_state.default_folder()
    with demo_state.alone(folder):
        running = info(folder)
        if running is not None and not reset:
            return running
        _stop(folder)
        demo_state.claim(folder)
        return _start(folder, speed, seed, unused_s, bare, on_stage)


def _start(
    folder: Path, speed: float, seed: int, unused_s: float, bare: bool, on_stage: Callable[[str], None]
) -> DemoInfo:
    arguments = ["--state-dir", str(folder), "--speed", str(speed), "--seed", str(seed), "--unused-s", str(unused_s)]
    if bare:
        arguments.append("--bare")
    log = os.open(folder / "daemon.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        daemon = subprocess.Popen(
            [sys.executable, "-m", "console.demo.container", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(_SOURCES)},
        )
    finally:
        os.close(log)
    try:
        return _await_ready(daemon, folder, on_stage)
    except BaseException:
        daemon.terminate()
        raise


def _await_ready(daemon: subprocess.Popen[bytes], folder: Path, on_stage: Callable[[str], None]) -> DemoInfo:
    assert daemon.stdout is not None
    fd, buffer = daemon.stdout.fileno(), b""
    while select.select([fd], [], [], START_LIMIT_S)[0]:
        data = os.read(fd, 1 << 16)
        if not data:
            break
        *lines, buffer = (buffer + data).split(b"\n")
        for line in lines:
            said = json.loads(line)
            if "error" in said:
                raise OperatorError.from_json(said["error"])
            if "ready" in said:
                return DemoInfo(**said["ready"])
            on_stage(str(said.get("stage", "")))
    last = (folder / "daemon.log").read_text(errors="replace").strip().splitlines()[-1:]
    why = clean(last[0]) if last else "it said nothing"
    raise OperatorError("demo-start", f"the demo's container did not start: {why}", f"see {folder / 'daemon.log'}")


def stop(state_dir: Path | None = None) -> bool:
    """End the demo, its launched generator included, and remove its folder; whether there was one.

    Only processes whose identity or mark is the demo's are signalled. Raises OperatorError that
    names what could not be ended.
    """
    folder = state_dir or demo_state.default_folder()
    with demo_state.alone(folder):
        return _stop(folder)


def _stop(folder: Path) -> bool:
    found = demo_state.read_state(folder)
    left = []
    if found is not None:
        send(found.daemon, signal.SIGTERM)
        left = demo_state.end_all(found.mark, {**found.started, "daemon": found.daemon})
    if left:
        pids = ", ".join(str(identity.pid) for identity in left)
        raise OperatorError("demo-stop", f"these processes of the demo could not be ended: {pids}", "end them by hand")
    demo_state.remove(folder)
    return found is not None


class _Daemon:
    """The container's own process: starts the parts one after the other, then waits to be stopped or forgotten."""

    def __init__(self, folder: Path, speed: float, seed: int, unused_s: float, bare: bool) -> None:
        self._folder = folder
        self._speed = speed
        self._seed = seed
        self._unused_s = unused_s
        self._bare = bare
        self._inside = folder / "container"
        self._root = self._inside / "data" / "eagle3" / "synth_100k" / "prepared"
        self._model = self._inside / "models" / "stand-in"
        self._work = self._inside / "work"
        self._home = self._inside / "root"
        self._bin = self._inside / "bin"
        self._mark = secrets.token_hex(8)
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._ready = False

    async def run(self) -> None:
        """Everything, until the end."""
        ending = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, ending.set)
        from console.demo.server import DemoServer

        try:
            self._make_folders()
            if not self._bare:
                self._tell({"stage": "making the incident's data"})
                await asyncio.to_thread(self._make_data)
            self._tell({"stage": "starting the stand-in engine"})
            engine_url = await asyncio.to_thread(self._start_engine)
            self._make_nvidia_smi(engine_url)
            if not self._bare:
                self._start_older_script(engine_url)
            self._tell({"stage": "starting the SSH server"})
            server = DemoServer(self._key("host_key"), self._key("client_key"), self._environment(), self._home)
            await server.start()
            described = self._describe(server.port, engine_url)
            described.save(self._folder)
            self._tell({"ready": asdict(described.info)})
            self._ready = True
            while not ending.is_set() and server.idle_s() < self._unused_s:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ending.wait(), min(5.0, self._unused_s))
                self._reap()
            await server.stop()
        finally:
            started = {name: identify(child.pid) for name, child in self._children.items()}
            alive_ones = {name: identity for name, identity in started.items() if identity is not None}
            await asyncio.to_thread(demo_state.end_all, self._mark, alive_ones)
            self._reap()
            if self._ready and not ending.is_set():
                demo_state.remove(self._folder)

    def _tell(self, message: dict[str, Any]) -> None:
        """A line to whoever started us, who may have left already."""
        try:
            os.write(1, json.dumps(message).encode() + b"\n")
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    def _make_folders(self) -> None:
        from console.demo.server import make_key

        for folder in (self._root, self._model, self._work, self._home, self._bin):
            folder.mkdir(parents=True)
        for name in ("host_key", "client_key"):
            make_key(self._key(name))

    def _make_nvidia_smi(self, engine_url: str) -> None:
        """The one first on PATH; its figures follow the engine's load."""
        program = self._bin / "nvidia-smi"
        variables = f'EAGLE3_DEMO_ENGINE="{engine_url}" PYTHONPATH="{_SOURCES}"'
        program.write_text(f'#!/bin/sh\n{variables} exec "{sys.executable}" -B -S -m console.demo.nvidia_smi "$@"\n')
        program.chmod(0o755)

    def _make_data(self) -> None:
        from console.demo.data import make_data
        from console.demo.tokenizer import make_model

        make_model(self._model)
        make_data(self._root, self._model, self._work, self._seed)

    def _start_engine(self) -> str:
        from console.demo.data import MEAN_TOKENS

        words = [sys.executable, "-B", "-m", "console.demo.engine", "--model-path", str(self._model)]
        words += ["--seed", str(self._seed), "--mean-tokens", str(MEAN_TOKENS)]
        if self._speed != 1.0:
            from console.demo.engine_settings import EngineSettings

            settings = EngineSettings()
            words += ["--request-tokens-s", str(settings.request_tokens_s * self._speed)]
            words += ["--batch-tokens-s", str(settings.batch_tokens_s * self._speed)]
        engine = self._spawn("engine", words, stdout=subprocess.PIPE, PYTHONPATH=str(_SOURCES))
        assert engine.stdout is not None
        if not select.select([engine.stdout], [], [], ENGINE_LIMIT_S)[0]:
            raise OperatorError("demo-start", "the stand-in engine did not start in time", "see engine.log")
        line = engine.stdout.readline()
        if not line:
            raise OperatorError("demo-start", "the stand-in engine ended at once", f"see {self._folder / 'engine.log'}")
        return str(json.loads(line)["url"])

    def _start_older_script(self, engine_url: str) -> None:
        from console.demo import data, older_script

        script = self._work / "run_inference.py"
        shutil.copy(older_script.__file__, script)
        words = [sys.executable, str(script), "--root", str(self._root), "--engine-url", engine_url]
        words += ["--max-samples", str(data.MAX_SAMPLES), "--concurrency", str(OLDER_CONCURRENCY)]
        self._spawn("older_script", words, cwd=self._work)

    def _spawn(
        self, name: str, words: list[str], *, stdout: int | None = None, cwd: Path | None = None, **more: str
    ) -> subprocess.Popen[bytes]:
        log = os.open(self._folder / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            child = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log if stdout is None else stdout,
                stderr=log,
                start_new_session=True,
                cwd=cwd or self._home,
                env={**self._environment(), **more},
            )
        finally:
            os.close(log)
        self._children[name] = child
        return child

    def _environment(self) -> dict[str, str]:
        """What a container's sshd would give, and the demo's mark."""
        return {
            "HOME": str(self._home),
            "USER": "root",
            "LOGNAME": "root",
            "SHELL": "/bin/sh",
            "PATH": f"{self._bin}:/usr/local/bin:/usr/bin:/bin",
            demo_state.MARK_VARIABLE: self._mark,
        }

    def _key(self, name: str) -> Path:
        return self._folder / name

    def _describe(self, port: int, engine_url: str) -> DemoState:
        from console.demo.data import BUDGET

        known_hosts = self._folder / "known_hosts"
        kind, blob = self._key("host_key.pub").read_text().split()[:2]
        known_hosts.write_text(f"[127.0.0.1]:{port} {kind} {blob}\n")
        started = {name: demo_state.of_process(child.pid) for name, child in self._children.items()}
        described = DemoInfo(
            target=f"root@127.0.0.1:{port}",
            identity=str(self._key("client_key")),
            known_hosts=str(known_hosts),
            root=str(self._root),
            engine_url=engine_url,
            model_path=str(self._model),
            python=sys.executable,
            token_budget=BUDGET,
            pids={"container": os.getpid(), **{name: child.pid for name, child in self._children.items()}},
        )
        return DemoState(described, self._mark, demo_state.of_process(os.getpid()), started)

    def _reap(self) -> None:
        for child in self._children.values():
            child.poll()


def main(argv: list[str] | None = None) -> int:
    """The container's own process; started by `start`, not by hand."""
    parser = argparse.ArgumentParser(prog="python -m console.demo.container")
    parser.add_argument("--state-dir", type=Path, required=True)
    parser.add_argument("--speed", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--unused-s", type=float, default=UNUSED_LIMIT_S)
    parser.add_argument("--bare", action="store_true")
    args = parser.parse_args(argv)
    os.umask(0o077)
    daemon = _Daemon(args.state_dir, args.speed, args.seed, args.unused_s, args.bare)
    try:
        asyncio.run(daemon.run())
    except OperatorError as error:
        print(json.dumps({"error": error.to_json()}), flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
