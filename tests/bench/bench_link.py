"""What a link costs in time: connecting until the first full table, leaving, and each fault until it is told and mended.

    python -m tests.bench.bench_link [--rounds 5]

A real OpenSSH server with a real agent on a small tree, in a network namespace of its own (needs root). Seconds on the
clock, medians and worst of the rounds; the same connection without a console (`ssh` that runs `true`) in the same run
says how busy the machine is. The SSH library's import is beside it: a console pays it once, a reconnect never.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from console import link
from console.connecting import Connector
from console.pipe import AgentPipe
from tests.bench.link_faults import console, faults, full, until
from tests.support.netns import Namespace, namespace
from tests.support.new_release import new_release
from tests.support.sshd import Server, sshd, wait_for_port
from tests.support.tree import make_tree

THERE_TARGET_S = 1.0
SENT_TARGET_S = 2.0
QUIT_TARGET_S = 1.0


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
            met = asyncio.run(_quitting(space, server, root)) and met
            met = asyncio.run(faults(space, server, root, folder / "home", rounds)) and met
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
            async with console(root, connect) as (controller, changed):
                await until(controller, changed, full)
                took_s.append(time.monotonic() - began_s)
        met = _tell(f"connect to the first full table, {title}", took_s, limit_s) and met
    return met


async def _quitting(space: Namespace, server: Server, root: Path) -> bool:
    """How long leaving takes while nothing answers."""
    async with console(root, Connector(server.target())) as (controller, changed):
        await until(controller, changed, full)
        await asyncio.to_thread(space.silence)
        await until(controller, changed, lambda view: not view.link.fresh)
        began_s = time.monotonic()
        await controller.close()
        took_s = time.monotonic() - began_s
        await asyncio.to_thread(space.heal)
    return _tell("quit while nothing answers", [took_s], QUIT_TARGET_S)


if __name__ == "__main__":
    raise SystemExit(main())
