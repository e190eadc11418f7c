"""The SSH link: one connection, one channel, and a deadline on every wait. The only importer of asyncssh.

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncssh

from console import hostkeys, sshconfig
from console.algorithms import host_key_algorithms, usable
from console.bootstrap import COMMAND, start_agent
from console.dial import Proxy, dial
from console.link_errors import (
    ChannelRefused,
    HostCertificateInvalid,
    HostKeyRevoked,
    HostKeyUnknown,
    LinkError,
    LinkLost,
    LoginTimeout,
    NoCommonAlgorithm,
    NotLetIn,
    NotSsh,
    ProxyFailed,
    SshConfigFault,
)
from console.local import connect_local
from console.login_keys import Ask, Encrypted, LoginKeys, WrongPassphrase
from console.pipe import CLOSE_LIMIT_S, AgentPipe, Channel, Noise
from console.settings import config_folder
from console.ship import Package, package
from console.sshconfig import Hop
from console.target import Target
from remote.text import clean

log = logging.getLogger("eagle3.link")

logging.getLogger("asyncssh").addHandler(logging.NullHandler())
logging.getLogger("asyncssh").propagate = False
"""What it logs is for a transcript; on the operator's terminal it would be drawn over."""

DIAL_LIMIT_S = 10.0
LONGEST_DIAL_S = 60.0
GREET_LIMIT_S = 10.0
"""Longest silence of a server that took the connection."""
LOGIN_LIMIT_S = 90.0
"""A key may wait for a touch, or its agent for a confirmation, or we for a passphrase."""
CHANNEL_LIMIT_S = 15.0
KEEPALIVE_S = 2
KEEPALIVE_COUNT = 3
"""A silent link is given up after interval × (count + 1) = 8 s."""
TOUCH_HINT_S = 3.0

Stage = Callable[[str], None]


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
    route = await resolve_route(target, environment)
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


async def resolve_route(target: Target, environment: Mapping[str, str]) -> list[Hop]:
    """The hops to the target, as `ssh -G` says; where no ssh is installed, as asyncssh's own parser says."""
    if sshconfig.has_ssh():
        return await sshconfig.resolve(target, environment)
    return _route_without_ssh(target, environment)


def _route_without_ssh(target: Target, environment: Mapping[str, str], depth: int = 0) -> list[Hop]:
    if depth > sshconfig.MOST_HOPS:
        raise SshConfigFault(f"ProxyJump of {target} leads in a circle")
    bare = sshconfig.bare_hop(target, environment)
    named = target.config_file or "~/.ssh/config"
    files = [path for path in (Path(named).expanduser(), Path("/etc/ssh/ssh_config")) if path.is_file()]
    try:
        config = asyncssh.config.SSHClientConfig.load(
            None, files[:1], False, False, False, bare.user, target.user or (), target.host, target.port or ()
        )
    except (asyncssh.ConfigParseError, OSError, ValueError) as error:
        raise SshConfigFault(str(error)) from None
    answers = {key.lower(): _as_lines(value) for key, value in config.get_options(False).items()}
    defaults = {"userknownhostsfile": " ".join(bare.known_hosts)}
    answers = {**{key: [value] for key, value in defaults.items()}, **answers}
    answers.setdefault("identityfile", list(bare.identities))
    hop = sshconfig.hop_from_answers(target, answers, {}, environment)
    jump = target.jump or next(iter(answers.get("proxyjump", [])), "")
    hops: list[Hop] = []
    for text in jump.split(",") if jump not in ("", "none") else []:
        through = sshconfig.jump_target(text, target, first=not hops)
        hops += _route_without_ssh(through, environment, depth + 1)
    return [*hops, hop]


def _as_lines(value: object) -> list[str]:
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    return [str(item) for item in value] if isinstance(value, (list, tuple)) else [str(value)]


class _Link:
    """The open connections of a route, the last of them the container's."""

    def __init__(self) -> None:
        self.connections: list[asyncssh.SSHClientConnection] = []
        self.proxies: list[Proxy] = []
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
            raise LinkLost(self.where, _say(error)) from None
        return SshChannel(self, process)

    async def close(self) -> None:
        """End every connection, the innermost first; a frozen peer is not waited for."""
        for connection in reversed(self.connections):
            connection.close()
            with contextlib.suppress(TimeoutError, OSError, asyncssh.Error):
                async with asyncio.timeout(CLOSE_LIMIT_S / len(self.connections)):
                    await connection.wait_closed()
            connection.abort()
        for proxy in self.proxies:
            proxy.close()


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
            raise LinkLost(self.where, _say(error)) from None

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
        status = self._process.exit_status
        return "its channel was closed" if status is None else f"exit status {status}"

    def errors(self) -> Sequence[str]:
        return self._noise.lines()

    async def _drain_errors(self) -> None:
        with contextlib.suppress(OSError, asyncssh.Error):
            while data := await self._process.stderr.read(1 << 14):
                self._noise.feed(data)


async def _open_route(route: Sequence[Hop], pins: Path, ask: Ask | None, on_stage: Stage) -> _Link:
    link = _Link()
    try:
        for hop in route:
            via = route[len(link.connections) - 1].where if link.connections else ""
            link.connections.append(await _Opening(hop, pins, ask, on_stage, link, via).open())
            link.where = hop.where
        return link
    except BaseException:
        await link.close()
        raise


class _Opening(asyncssh.SSHClient):
    """One hop on its way to being open: what asyncssh calls back, and what its exceptions mean."""

    def __init__(self, hop: Hop, pins: Path, ask: Ask | None, on_stage: Stage, link: _Link, via: str) -> None:
        self._hop = hop
        self._pins = pins
        self._loader = _Loader()
        self._keys = LoginKeys(hop, self._loader, ask)
        self._on_stage = on_stage
        self._link = link
        self._via = via
        self._phase = "greet"
        self._deadline: asyncio.Timeout | None = None
        self._hint: asyncio.TimerHandle | None = None
        self._shown: asyncssh.SSHKey | None = None
        self._certified = True
        self._name = hop.host_key_alias or hostkeys.host_pattern(hop.host, hop.port)
        self._known = hostkeys.known_keys([str(pins), *hop.known_hosts], self._name)

    async def open(self) -> asyncssh.SSHClientConnection:
        """The open connection. Raises a LinkError."""
        try:
            return await self._once()
        except _CertificateUnknown:
            # Signed by an authority that is not ours: as ssh does, look at the plain key instead.
            self._certified = False
            return await self._once()
        finally:
            self._loader.close()

    async def _once(self) -> asyncssh.SSHClientConnection:
        hop = self._hop
        self._phase = "greet"
        self._on_stage(f"connecting to {hop.where}")
        proxy: Proxy | None = None
        where_from: dict[str, Any]
        if self._link.connections:
            where_from = {"tunnel": self._link.connections[-1]}
        elif hop.proxy_command is not None:
            proxy = await Proxy.start(hop)
            self._link.proxies.append(proxy)
            where_from = {"sock": proxy.sock}
        else:
            where_from = {"sock": await dial(hop, min(hop.connect_timeout_s or DIAL_LIMIT_S, LONGEST_DIAL_S))}
        try:
            async with asyncio.timeout(GREET_LIMIT_S) as self._deadline:
                return await asyncssh.connect(
                    hop.host, hop.port, client_factory=lambda: self, **where_from, **self._options()
                )
        except (TimeoutError, OSError, asyncssh.Error, ValueError) as error:
            log.debug("%s: %s %s", hop.where, type(error).__name__, error)
            raise self._explain(error, await proxy.why() if proxy else "") from None
        finally:
            if self._hint is not None:
                self._hint.cancel()

    def _options(self) -> dict[str, Any]:
        hop = self._hop
        files, names = [str(self._pins), *hop.known_hosts], [self._name]
        if hop.host_key_alias is None and hop.port != 22:
            # ssh(1) trusts a key that is known for the bare host, but does not call another one changed.
            names.append(hop.host)
        known = [key for name in names for key in hostkeys.known_keys(files, name)]
        trusted = [_read_key(key.key) for key in known if key.marker == ""]
        authorities = [_read_key(key.key) for key in known if key.marker == "cert-authority"]
        revoked = [_read_key(key.key) for key in known if key.marker == "revoked"]
        options: dict[str, Any] = {
            "config": None,
            "username": hop.user,
            "known_hosts": tuple([key for key in keys if key] for keys in (trusted, authorities, revoked)),
            "host_key_alias": hop.host_key_alias,
            "server_host_key_algs": host_key_algorithms(
                [name.decode() for key in trusted if key for name in key.sig_algorithms],
                bool(authorities) and self._certified,
                hop.host_key_algorithms,
            ),
            "client_keys": None,
            "agent_path": None,
            "preferred_auth": ("publickey",),
            "gss_host": None,
            "compression_algs": ["zlib@openssh.com", "none"],
            "keepalive_interval": KEEPALIVE_S,
            "keepalive_count_max": KEEPALIVE_COUNT,
            "login_timeout": 0,
        }
        for option, asked, possible in (
            ("encryption_algs", hop.ciphers, asyncssh.encryption.get_encryption_algs()),
            ("mac_algs", hop.macs, asyncssh.mac.get_mac_algs()),
            ("kex_algs", hop.key_exchanges, asyncssh.kex.get_kex_algs()),
        ):
            names = usable(asked, possible)
            if names:
                options[option] = names
        return options

    # What asyncssh calls.

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Called only for a key that is not trusted: remembered, and refused."""
        self._shown = key
        return False

    async def public_key_auth_requested(self) -> Any:
        """The next key to try; the host's key is checked by now."""
        if self._phase == "greet":
            self._phase = "login"
            self._on_stage(f"signing in to {self._hop.where} as {self._hop.user}")
            loop = asyncio.get_running_loop()
            assert self._deadline is not None
            self._deadline.reschedule(loop.time() + LOGIN_LIMIT_S)
            self._hint = loop.call_later(TOUCH_HINT_S, self._hint_at_touch)
        return await self._keys.next()

    def _hint_at_touch(self) -> None:
        if not self._keys.asking:
            self._on_stage("waiting for the key: touch or confirm it")

    # What its exceptions mean.

    def _explain(self, error: Exception, proxy_said: str) -> LinkError:
        where, tried = self._hop.where, self._keys.tried
        if isinstance(error, TimeoutError):
            if self._phase == "login":
                return LoginTimeout(where, LOGIN_LIMIT_S, tried[-1] if tried else "")
            return self._not_ssh(f"silent for {GREET_LIMIT_S:g} s", proxy_said)
        if isinstance(error, asyncssh.HostKeyNotVerifiable):
            return self._key_refused(error)
        if isinstance(error, asyncssh.ChannelOpenError):
            return ProxyFailed(where, self._via, error.reason)
        if isinstance(error, asyncssh.KeyExchangeFailed):
            return NoCommonAlgorithm(where, _say(error))
        too_many = "too many authentication failures" in str(error).lower()
        if isinstance(error, asyncssh.PermissionDenied) or too_many:
            if self._keys.locked is not None and not too_many:
                return self._keys.locked
            return NotLetIn(self._hop.user, where, tried, too_many)
        if self._phase == "login":
            return LinkLost(where, f"while signing in: {_say(error)}")
        return self._not_ssh(_say(error), proxy_said)

    def _not_ssh(self, why: str, proxy_said: str) -> LinkError:
        if self._hop.proxy_command is not None:
            return ProxyFailed(
                self._hop.where, f"the ProxyCommand {clean(self._hop.proxy_command, 80)}", proxy_said or why
            )
        return NotSsh(self._hop.where, why)

    def _key_refused(self, error: asyncssh.HostKeyNotVerifiable) -> LinkError:
        where, key = self._hop.where, self._shown
        if key is not None:
            line = key.export_public_key("openssh").decode()
            return hostkeys.verdict(where, self._name, self._known, line, self._pins)
        # A revoked key, or a certificate that is not valid, never reaches our callback.
        if "revoked" in _say(error).lower():
            revoked = [known.fingerprint for known in self._known if known.marker == "revoked"]
            return HostKeyRevoked(where, ", ".join(revoked) or _say(error))
        if self._certified and "not trusted" in _say(error).lower():
            raise _CertificateUnknown
        return HostCertificateInvalid(where, _say(error))


class _CertificateUnknown(Exception):
    """The host showed a certificate of an authority that is not trusted here."""


class _Loader:
    """What asyncssh does with keys, with its exceptions told apart."""

    def __init__(self) -> None:
        self._agents: list[asyncssh.SSHAgentClient] = []

    def close(self) -> None:
        """Let the agents go."""
        for agent in self._agents:
            agent.close()

    def load(self, path: str, passphrase: str | None, certificates: Sequence[str]) -> list[Any]:
        present = [name for name in certificates if os.path.exists(name)]
        try:
            return list(asyncssh.load_keypairs([path], passphrase, present))
        except asyncssh.KeyEncryptionError as error:
            raise WrongPassphrase from error
        except asyncssh.KeyImportError as error:
            if str(error).startswith("Passphrase"):
                raise Encrypted from error
            raise ValueError(str(error)) from None

    def public(self, path: str) -> bytes | None:
        for name in (f"{path}.pub", path):
            with contextlib.suppress(OSError, ValueError, asyncssh.KeyImportError):
                return asyncssh.read_public_key(name).public_data
        return None

    async def agent(self, socket: str) -> list[Any]:
        client = await asyncssh.connect_agent(socket)
        self._agents.append(client)
        return list(await client.get_keys())


def _read_key(line: str) -> asyncssh.SSHKey | None:
    try:
        return asyncssh.import_public_key(line)
    except (asyncssh.KeyImportError, ValueError):
        return None


def _say(error: BaseException) -> str:
    text = getattr(error, "reason", "") or getattr(error, "strerror", "") or str(error) or type(error).__name__
    return clean(text, 200)
