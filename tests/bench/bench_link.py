"""What a link costs in time: connecting until the first full table, a silent cut until it is shown, and the way back.

    python -m tests.bench.bench_link [--rounds 5]

A real OpenSSH server with a real agent on a small tree, in a network namespace of its own (needs root). Seconds on the
clock, medians and worst of the rounds; the same connection without a console (`ssh` that runs `true`) in the same run
says how busy the machine is. The SSH library's import is beside it: a console pays it once, a reconnect never.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from console import link
from console.connecting import Connector
from console.controller import Controller
from console.conversation import Connect
from console.pipe import AgentPipe
from console.view import LinkState, View
from remote.options import Budget, Options
from tests.support.netns import Namespace, namespace
from tests.support.new_release import new_release
from tests.support.sshd import Server, sshd, wait_for_port
from tests.support.tree import SMALL_BUDGET, make_tree

THERE_TARGET_S = 1.0
SENT_TARGET_S = 2.0
STALE_TARGET_S = 10.0
QUIT_TARGET_S = 1.0
BACK_TARGET_S = 3.0
LIMIT_S = 60.0


def main() -> int:
    """Print the figures, each beside its target; 1 when one was missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        root = folder / "prepared"
        root.mkdir()
        make_tree(root, "mid")
        with namespace() as space, sshd(folder, prefix=space.prefix, host=space.address) as server:
            wait_for_port(server.port, space.address)
            _tell("an ssh that runs `true`", [_plain(server) for _ in range(rounds)])
            _tell("importing the SSH library, once a process", [_library() for _ in range(rounds)])
            met = asyncio.run(_connecting(server, root, rounds))
            met = asyncio.run(_silence(space, server, root, rounds)) and met
            return int(not met)


def _tell(what: str, took_s: list[float], limit_s: float = float("inf")) -> bool:
    """Print one line, and say whether every round stayed within the limit."""
    met = max(took_s) <= limit_s
    beside = f"target <= {limit_s:g} s" if limit_s < float("inf") else ""
    figures = f"median {statistics.median(took_s):5.2f} s  worst {max(took_s):5.2f} s"
    print(f"link: {what:<42} {figures}   {beside}{'' if met else '   MISSED'}", flush=True)
    return met


def _plain(server: Server) -> float:
    began_s = time.monotonic()
    words = ["-F", "/dev/null", "-i", str(server.identity), "-o", f"UserKnownHostsFile={server.known_hosts}"]
    subprocess.run(["ssh", *words, "-p", str(server.port), f"{server.user}@{server.host}", "true"], check=True)
    return time.monotonic() - began_s


def _library() -> float:
    began_s = time.monotonic()
    subprocess.run([sys.executable, "-c", "import console.link"], check=True)
    return time.monotonic() - began_s


@asynccontextmanager
async def _console(root: Path, connect: Connect) -> AsyncIterator[tuple[Controller, asyncio.Event]]:
    """A controller, and an event for each view it publishes."""
    options = Options(root=str(root), token_budget=Budget(SMALL_BUDGET), engine_url="http://127.0.0.1:9")
    controller = Controller("bench", options, connect)
    changed = asyncio.Event()
    controller.subscribe(lambda view: changed.set())
    await controller.start()
    try:
        yield controller, changed
    finally:
        await controller.close()


async def _until(controller: Controller, changed: asyncio.Event, holds: Callable[[View], bool]) -> float:
    """Seconds until a published view is so."""
    began_s = time.monotonic()
    async with asyncio.timeout(LIMIT_S):
        while not holds(controller.view):
            changed.clear()
            await changed.wait()
    return time.monotonic() - began_s


def _full(view: View) -> bool:
    """Live, and every row of the table has its figures."""
    snapshot = view.snapshot
    return (
        view.link.state is LinkState.LIVE
        and snapshot is not None
        and len(snapshot.datasets) == 8
        and not {"datasets", "plan"} & set(snapshot.pending)
    )


async def _connecting(server: Server, root: Path, rounds: int) -> bool:
    met = True
    shipped = new_release()

    async def connect() -> AgentPipe:
        pipe = await link.connect(server.target(), shipped=shipped)
        assert pipe.sent == is_new
        return pipe

    for title, limit_s, is_new in (("zip sent", SENT_TARGET_S, True), ("zip there", THERE_TARGET_S, False)):
        took_s = []
        for _ in range(rounds):
            if is_new:
                shipped = new_release()
            began_s = time.monotonic()
            async with _console(root, connect) as (controller, changed):
                await _until(controller, changed, _full)
                took_s.append(time.monotonic() - began_s)
        met = _tell(f"connect to the first full table, {title}", took_s, limit_s) and met
    return met


async def _silence(space: Namespace, server: Server, root: Path, rounds: int) -> bool:
    stale_s, back_s, quit_s = [], [], []
    rng = random.Random(os.getpid())
    async with _console(root, Connector(server.target())) as (controller, changed):
        await _until(controller, changed, _full)
        for _ in range(rounds):
            await asyncio.to_thread(space.silence)
            stale_s.append(await _until(controller, changed, lambda view: not view.link.fresh))
            await asyncio.sleep(rng.uniform(2.0, 20.0))
            await asyncio.to_thread(space.heal)
            back_s.append(await _until(controller, changed, _full))
    async with _console(root, Connector(server.target())) as (controller, changed):
        await _until(controller, changed, _full)
        await asyncio.to_thread(space.silence)
        await _until(controller, changed, lambda view: not view.link.fresh)
        began_s = time.monotonic()
        await controller.close()
        quit_s.append(time.monotonic() - began_s)
        await asyncio.to_thread(space.heal)
    met = _tell("silent cut until it is shown", stale_s, STALE_TARGET_S)
    met = _tell("quit meanwhile", quit_s, QUIT_TARGET_S) and met
    return _tell("network back until the full table is live", back_s, BACK_TARGET_S) and met


if __name__ == "__main__":
    raise SystemExit(main())
