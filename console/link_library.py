"""What the link asks of asyncssh beside connections: keys, agents, and a configuration where no ssh is installed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import asyncssh

from console import sshconfig
from console.link_errors import SshConfigFault
from console.login_keys import Encrypted, WrongPassphrase
from console.sshconfig import Hop
from console.target import Target
from remote.text import clean


class Loader:
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


def read_key(line: str) -> asyncssh.SSHKey | None:
    """A public key `TYPE BASE64`; None for a type that asyncssh has not."""
    try:
        return asyncssh.import_public_key(line)
    except (asyncssh.KeyImportError, ValueError):
        return None


def say(error: BaseException) -> str:
    """What an exception says, for a message; never empty."""
    text = getattr(error, "reason", "") or getattr(error, "strerror", "") or str(error) or type(error).__name__
    return clean(text, 200)


def route_without_ssh(target: Target, environment: Mapping[str, str], depth: int = 0) -> list[Hop]:
    """The hops to the target by asyncssh's own parser, which refuses some lines that ssh takes. Raises SshConfigFault."""
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
        hops += route_without_ssh(through, environment, depth + 1)
    return [*hops, hop]


def _as_lines(value: object) -> list[str]:
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    return [str(item) for item in value] if isinstance(value, (list, tuple)) else [str(value)]
