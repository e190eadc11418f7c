"""The SSH link: one connection, one channel, and a deadline on every wait.

This module, `link_hop` and `link_library` are the only ones of the console that import asyncssh.

`connect` opens the hops of the route one through the other, checks every host key against the
files that count (see `hostkeys`), signs in with one key after the other as OpenSSH would, starts
the bootstrap on a channel without terminal, and returns the agent's pipe. Every failure is a
class of `link_errors` with one sentence.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import asyncssh

from console import hostkeys
from console.bootstrap import COMMAND, start_agent
from console.link_errors import ChannelRefused, HostKeyUnknown, LinkLost
from console.link_hop import HopOpening, Stage
from console.link_library import route_without_ssh, say
from console.local import connect_local
from console.login_keys import Ask
from console.pipe import CLOSE_LIMIT_S, AgentPipe, Channel, Noise
from console.settings import config_folder
from console.ship import Package, package
from console.sshconfig import Hop, has_ssh, resolve
from console.target import Target
from remote.text import clean

log = logging.getLogger("eagle3.link")

logging.getLogger("asyncssh").addHandler(logging.NullHandler())
logging.getLogger("asyncssh").propagate = False
"""What it logs is for a transcript; on the operator's terminal it would be drawn over."""

CHANNEL_LIMIT_S = 15.0


async def connect(
    target: Target,
    *,
    python: str | None = None,
    ask: Ask | None = None,
    on_stage: Stage = lambda stage: None,
    environment: Mapping[str, str] | None = None,
    dial_limit_s: float | None = None,
    shipped: Package | None = None,
    arguments: Sequence[str] = ("agent",),
) -> AgentPipe:
    """A running agent on the target, over SSH or, for `local`, without.

    `python` is the `--python` option; `ask` is called for a passphrase (headless callers give
    none: PassphraseNeeded then); `on_stage` hears in a few words what is being waited for;
    `dial_limit_s` is the longest wait for a TCP connection, else the configuration's ConnectTimeout.
    Raises a LinkError: HostKeyUnknown and HostKeyChanged before anything was sent.
    """
    if target.kind == "local":
        return await connect_local(python=python, on_stage=on_stage, shipped=shipped, arguments=arguments)
    environment = os.environ if environment is None else environment
    on_stage = _logged(on_stage)
    on_stage("reading the SSH configuration")
    # Packing takes as long as signing in on a near network: both at once.
    packing = asyncio.create_task(_pack(shipped), name="pack the helper")
    route = await _resolve(target, environment)
    log.debug("route to %s: %s", target, " -> ".join(hop.where for hop in route))
    pins = hostkeys.pin_file(config_folder(environment), target.name)
    if dial_limit_s is not None:
        route = [replace(hop, connect_timeout_s=dial_limit_s) for hop in route]
    link = await _open_route(route, pins, ask, on_stage)
    try:
        channel = await link.run(COMMAND)
        return await start_agent(channel, await packing, python=python, arguments=arguments, on_stage=on_stage)
    except BaseException:
        await link.close()
        raise


async def _pack(shipped: Package | None) -> Package:
    return await asyncio.to_thread(package) if shipped is None else shipped


def _logged(on_stage: Stage) -> Stage:
    def tell(stage: str) -> None:
        log.debug("%s", stage)
        on_stage(stage)

    return tell


def accept_key(unknown: HostKeyUnknown) -> None:
    """Pin the key of a HostKeyUnknown, after the operator's explicit yes. Raises OperatorError."""
    hostkeys.pin(Path(unknown.pin_file), unknown.key_line)


async def _resolve(target: Target, environment: Mapping[str, str]) -> list[Hop]:
    return await resolve(target, environment) if has_ssh() else route_without_ssh(target, environment)


async def _open_route(route: Sequence[Hop], pins: Path, ask: Ask | None, on_stage: Stage) -> _Link:
    link = _Link()
    try:
        for hop in route:
            tunnel = link.connections[-1] if link.connections else None
            opening = HopOpening(hop, pins, ask, on_stage, tunnel, via=link.where)
            link.hops.append(opening)
            link.connections.append(await opening.open())
            link.where = hop.where
        return link
    except BaseException:
        await link.close()
        raise


class _Link:
    """The open connections of a route, the last of them the container's."""

    def __init__(self) -> None:
        self.connections: list[asyncssh.SSHClientConnection] = []
        self.hops: list[HopOpening] = []
        self.where = ""

    async def run(self, command: str) -> SshChannel:
        """Start a command without terminal or environment of ours. Raises ChannelRefused or LinkLost."""
        try:
            async with asyncio.timeout(CHANNEL_LIMIT_S):
                process = await self.connections[-1].create_process(
                    command, encoding=None, request_pty=False, env=None, send_env=None, x11_forwarding=False
                )
        except TimeoutError:
            raise ChannelRefused(self.where, f"no answer within {CHANNEL_LIMIT_S:g} s") from None
        except asyncssh.ChannelOpenError as error:
            raise ChannelRefused(self.where, error.reason) from None
        except (OSError, asyncssh.Error) as error:
            raise LinkLost(self.where, say(error)) from None
        return SshChannel(self, process)

    async def close(self) -> None:
        """End every connection, the innermost first; a frozen peer is not waited for."""
        for connection in reversed(self.connections):
            connection.close()
            with contextlib.suppress(TimeoutError, OSError, asyncssh.Error):
                async with asyncio.timeout(CLOSE_LIMIT_S / len(self.connections)):
                    await connection.wait_closed()
            connection.abort()
        for hop in self.hops:
            await hop.close_proxy()


class SshChannel(Channel):
    """The bootstrap, and then the agent, at the other end of an SSH channel."""

    def __init__(self, link: _Link, process: asyncssh.SSHClientProcess[bytes]) -> None:
        self.where = link.where
        self._link = link
        self._process = process
        self._noise = Noise()
        self._drain = asyncio.create_task(self._drain_errors(), name="remote stderr")

    async def read(self) -> bytes:
        try:
            return await self._process.stdout.read(1 << 16)
        except (OSError, asyncssh.Error) as error:
            raise LinkLost(self.where, say(error)) from None

    async def write(self, data: bytes) -> None:
        try:
            self._process.stdin.write(data)
            await self._process.stdin.drain()
        except (OSError, asyncssh.Error):
            # The program or the link is gone; reading tells which, and how.
            log.debug("nothing takes our input at %s any more", self.where)

    async def close(self) -> None:
        self._drain.cancel()
        await self._link.close()

    async def ending(self) -> str:
        with contextlib.suppress(TimeoutError, OSError, asyncssh.Error):
            async with asyncio.timeout(1.0):
                await asyncio.wait([self._drain])
                await self._process.wait_closed()
        if self._process.exit_signal is not None:
            return f"killed by {clean(self._process.exit_signal[0], 20)}"
        if self._process.exit_status is None:
            # Unknown is neither success nor death: the link went first.
            raise LinkLost(self.where, "the channel ended without a word")
        return f"exit status {self._process.exit_status}"

    def errors(self) -> Sequence[str]:
        return self._noise.lines()

    async def _drain_errors(self) -> None:
        with contextlib.suppress(OSError, asyncssh.Error):
            while data := await self._process.stderr.read(1 << 14):
                self._noise.feed(data)
