"""Opening one hop: its key is checked, one login key after the other is offered, and what fails is explained."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import asyncssh

from console import hostkeys
from console.algorithms import host_key_algorithms, usable
from console.dial import Proxy, dial
from console.greeting import Greeting, without_match
from console.link_errors import (
    BrokenOff,
    HostCertificateInvalid,
    HostKeyRevoked,
    LinkError,
    LinkLost,
    LoginTimeout,
    NoCommonAlgorithm,
    NotLetIn,
    NotSsh,
    ProxyFailed,
    ServerBusy,
)
from console.link_library import Loader, read_key, say
from console.login_keys import Ask, LoginKeys
from console.passwords import Outcome, Passwords
from console.pipe import Noise
from console.sshconfig import Hop
from remote.text import clean

log = logging.getLogger("eagle3.link")

DIAL_LIMIT_S = 10.0
LONGEST_DIAL_S = 60.0
GREET_LIMIT_S = 10.0
"""Longest silence of a server that took the connection."""
LOGIN_LIMIT_S = 90.0
"""A key may wait for a touch, or its agent for a confirmation, or we for a passphrase."""
KEEPALIVE_S = 2
KEEPALIVE_COUNT = 3
"""A silent link is given up after interval × (count + 1) = 8 s."""
TOUCH_HINT_S = 3.0

_TURNED_AWAY = ("MaxStartups", "Not allowed at this time")
"""What OpenSSH says in place of its identification: from 8.3, and from 9.8 under PerSourcePenalties."""

_CIPHERS = (asyncssh.encryption.get_encryption_algs, asyncssh.encryption.get_default_encryption_algs)
_MACS = (asyncssh.mac.get_mac_algs, asyncssh.mac.get_default_mac_algs)
_EXCHANGES = (asyncssh.kex.get_kex_algs, asyncssh.kex.get_default_kex_algs)

Stage = Callable[[str], None]


class HopOpening(asyncssh.SSHClient):
    """One hop on its way to being open: what asyncssh calls back, and what its exceptions mean."""

    def __init__(
        self,
        hop: Hop,
        pins: Path,
        ask: Ask | None,
        on_stage: Stage,
        tunnel: asyncssh.SSHClientConnection | None,
        via: str,
    ) -> None:
        self._hop = hop
        self._pins = pins
        self._loader = Loader()
        self._keys = LoginKeys(hop, self._loader, ask)
        self._passwords = Passwords(hop, ask)
        self._by_key = False
        """The server takes keys at all."""
        self._on_stage = on_stage
        self.proxy: Proxy | None = None
        """The running ProxyCommand that the connection needs, if any; the caller's to close."""
        self._tunnel = tunnel
        self._via = via
        self._phase = "greet"
        self._deadline: asyncio.Timeout | None = None
        self._hint: asyncio.TimerHandle | None = None
        self._shown: asyncssh.SSHKey | None = None
        self._certified = True
        self._banner = Noise()
        self._greeting = Greeting()
        self._asked: dict[str, Sequence[str]] = {}
        """The algorithms that we offer, as `without_match` takes them."""
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
        self._phase, self._shown, self._greeting = "greet", None, Greeting()
        self._on_stage(f"connecting to {hop.where}")
        await self.close_proxy()
        where_from: dict[str, Any]
        if self._tunnel is not None:
            where_from = {"tunnel": self._tunnel}
        elif hop.proxy_command is not None:
            self.proxy = await Proxy.start(hop)
            where_from = {"sock": self.proxy.sock}
        else:
            where_from = {"sock": await dial(hop, min(hop.connect_timeout_s or DIAL_LIMIT_S, LONGEST_DIAL_S))}
        try:
            async with asyncio.timeout(GREET_LIMIT_S) as self._deadline:
                return await asyncssh.connect(
                    hop.host, hop.port, client_factory=lambda: self, **where_from, **self._options()
                )
        except (TimeoutError, OSError, asyncssh.Error, ValueError) as error:
            log.debug("%s: %s %s", hop.where, type(error).__name__, error)
            told = self._explain(error, await self.proxy.why() if self.proxy else "")
            told.details = (*told.details, *self._banner.lines())
            raise told from None
        finally:
            if self._hint is not None:
                self._hint.cancel()

    async def close_proxy(self) -> None:
        """End the ProxyCommand, if one runs."""
        if self.proxy is not None:
            proxy, self.proxy = self.proxy, None
            await proxy.close()

    def _options(self) -> dict[str, Any]:
        hop = self._hop
        files, names = [str(self._pins), *hop.known_hosts], [self._name]
        if hop.host_key_alias is None and hop.port != 22:
            # ssh(1) trusts a key that is known for the bare host, but does not call another one changed.
            names.append(hop.host)
        known = [key for name in names for key in hostkeys.known_keys(files, name)]
        trusted = [read_key(key.key) for key in known if key.marker == ""]
        authorities = [read_key(key.key) for key in known if key.marker == "cert-authority"]
        revoked = [read_key(key.key) for key in known if key.marker == "revoked"]
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
            "preferred_auth": ("publickey", *hop.asking),
            "gss_host": None,
            "compression_algs": ["zlib@openssh.com", "none"],
            "keepalive_interval": KEEPALIVE_S,
            "keepalive_count_max": KEEPALIVE_COUNT,
            "login_timeout": 0,
        }
        ours = {"host key": options["server_host_key_algs"], "compression": options["compression_algs"]}
        for kind, option, asked, known_algs, default in (
            ("cipher", "encryption_algs", hop.ciphers, *_CIPHERS),
            ("MAC", "mac_algs", hop.macs, *_MACS),
            ("key exchange", "kex_algs", hop.key_exchanges, *_EXCHANGES),
        ):
            names = usable(asked, known_algs())
            if names:
                options[option] = names
            ours[kind] = names or [name.decode() for name in default()]
        self._asked = ours
        return options

    # What asyncssh calls.

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        """Listen in on the greeting: asyncssh forgets it when the server hangs up in the same moment."""
        greeting, take = self._greeting, conn.data_received

        def listen(data: bytes, datatype: Any = None) -> None:
            greeting.feed(data)
            if greeting.done:
                conn.data_received = take  # type: ignore[method-assign]
            take(data, datatype)

        conn.data_received = listen  # type: ignore[method-assign]

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Called only for a key that is not trusted: remembered, and refused."""
        self._shown = key
        return False

    def auth_banner_received(self, msg: str, lang: str) -> None:
        """What the server says before anybody is let in: kept for the details."""
        self._banner.feed(msg.encode() + b"\n")
        for line in self._banner.lines():
            log.debug("%s says: %s", self._hop.where, line)

    async def public_key_auth_requested(self) -> Any:
        """The next key to try; the host's key is checked by now, as in all that follow."""
        self._sign_in()
        self._by_key = True
        return await self._keys.next()

    def kbdint_auth_requested(self) -> str | None:
        """Whether the server may ask its own questions: an empty list of ways for yes."""
        self._sign_in()
        return "" if self._passwords.begin_dialogue() else None

    async def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: Sequence[tuple[str, bool]]
    ) -> list[str] | None:
        """The answers to its questions."""
        return await self._passwords.answers(prompts)

    async def password_auth_requested(self) -> str | None:
        """The next password to try."""
        self._sign_in()
        return await self._passwords.password()

    def _sign_in(self) -> None:
        if self._phase == "greet":
            self._phase = "login"
            self._on_stage(f"signing in to {self._hop.where} as {self._hop.user}")
            loop = asyncio.get_running_loop()
            assert self._deadline is not None
            self._deadline.reschedule(loop.time() + LOGIN_LIMIT_S)
            self._hint = loop.call_later(TOUCH_HINT_S, self._hint_at_touch)

    def _hint_at_touch(self) -> None:
        if not self._keys.asking and not self._passwords.asking:
            self._on_stage("waiting for the key: touch or confirm it")

    # What its exceptions mean.

    def _explain(self, error: Exception, proxy_said: str) -> LinkError:
        where, tried = self._hop.where, self._keys.tried
        if isinstance(error, TimeoutError):
            if self._phase == "login":
                return LoginTimeout(where, LOGIN_LIMIT_S, tried[-1] if tried else "")
            return self._not_greeted(f"silent for {GREET_LIMIT_S:g} s", proxy_said)
        if isinstance(error, asyncssh.HostKeyNotVerifiable):
            return self._key_refused(error)
        if isinstance(error, asyncssh.ChannelOpenError):
            return ProxyFailed(where, self._via, error.reason)
        if isinstance(error, asyncssh.KeyExchangeFailed):
            return NoCommonAlgorithm(where, self._no_match() or say(error))
        too_many = "too many authentication failures" in str(error).lower()
        if isinstance(error, asyncssh.PermissionDenied) or too_many:
            if self._keys.locked is not None and not too_many and self._passwords.outcome is not Outcome.WRONG:
                return self._keys.locked
            return NotLetIn(self._hop.user, where, tried, too_many, self._by_key, self._passwords.outcome)
        if self._phase == "login":
            return LinkLost(where, f"while signing in: {say(error)}")
        return self._not_greeted(say(error), proxy_said)

    def _no_match(self) -> str:
        offers = self._greeting.offers
        return without_match(self._asked, offers) if offers is not None else ""

    def _not_greeted(self, why: str, proxy_said: str) -> LinkError:
        """It hung up, or went silent, before its key could be checked: how far had it come?"""
        where, greeting = self._hop.where, self._greeting
        no_match = self._no_match()
        if no_match:
            return NoCommonAlgorithm(where, no_match)
        if greeting.identification is not None:
            return BrokenOff(where, greeting.identification, why)
        said = greeting.said()
        if any(words in said for words in _TURNED_AWAY):
            return ServerBusy(where, said)
        if self._hop.proxy_command is not None:
            through = f"the ProxyCommand {clean(self._hop.proxy_command, 80)}"
            return ProxyFailed(where, through, proxy_said or said or why)
        return NotSsh(where, f"it said: {said}" if said else why)

    def _key_refused(self, error: asyncssh.HostKeyNotVerifiable) -> LinkError:
        where, key = self._hop.where, self._shown
        if key is not None:
            line = key.export_public_key("openssh").decode()
            return hostkeys.verdict(where, self._name, self._known, line, self._pins)
        # A revoked key, or a certificate that is not valid, never reaches our callback.
        if "revoked" in say(error).lower():
            revoked = [known.fingerprint for known in self._known if known.marker == "revoked"]
            return HostKeyRevoked(where, ", ".join(revoked) or say(error))
        if self._certified and "not trusted" in say(error).lower():
            raise _CertificateUnknown
        return HostCertificateInvalid(where, say(error))


class _CertificateUnknown(Exception):
    """The host showed a certificate of an authority that is not trusted here."""
