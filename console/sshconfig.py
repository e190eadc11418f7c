"""The user's SSH configuration, resolved by `ssh -G` where ssh is installed.

OpenSSH's own parser is the only one that takes every file OpenSSH takes; where there is none, the
link asks its SSH library's parser and reports what that refuses, with file and line.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import re
import shutil
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from console.link_errors import SshConfigFault
from console.target import Target, parse_address
from remote.text import clean

RESOLVE_LIMIT_S = 10.0
"""A `Match exec` of the user's may take its time, but not for ever."""
MOST_HOPS = 8
_OURS = ("-o", "RequestTTY=no", "-o", "ClearAllForwardings=yes")


@dataclass(frozen=True)
class Hop:
    """One connection with everything that the configuration says of it. Paths are expanded."""

    alias: str
    host: str
    port: int = 22
    user: str = ""
    identities: tuple[str, ...] = ()
    """Private keys (or their public halves, for keys that an agent holds), explicit ones first."""
    explicit: bool = False
    """The identities were named for this call; they are tried before the agent's keys."""
    identities_only: bool = False
    certificates: tuple[str, ...] = ()
    agent: str | None = None
    """The agent's socket; None when there is none or it is switched off."""
    asking: tuple[str, ...] = ("keyboard-interactive", "password")
    """Ways to sign in that ask a person, as far as the configuration allows them."""
    proxy_command: str | None = None
    known_hosts: tuple[str, ...] = ()
    host_key_alias: str | None = None
    host_key_algorithms: tuple[str, ...] | None = None
    ciphers: tuple[str, ...] | None = None
    macs: tuple[str, ...] | None = None
    key_exchanges: tuple[str, ...] | None = None
    connect_timeout_s: float | None = None
    family: str = "any"

    @property
    def where(self) -> str:
        """The address as a message names it: `alias (1.2.3.4:22001)`, or the address alone."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        place = host if self.port == 22 else f"{host}:{self.port}"
        return place if self.alias in (self.host, place) else f"{self.alias} ({place})"


def has_ssh() -> bool:
    """Whether OpenSSH's client is installed here."""
    return shutil.which("ssh") is not None


async def resolve(target: Target, environment: Mapping[str, str] | None = None) -> list[Hop]:
    """The connections to open, jump hosts first, the target last. Raises SshConfigFault."""
    environment = os.environ if environment is None else environment
    return await _route(target, environment, depth=0)


async def _route(target: Target, environment: Mapping[str, str], depth: int) -> list[Hop]:
    if depth > MOST_HOPS:
        raise SshConfigFault(f"ProxyJump of {target} leads in a circle")
    # What ssh answers without any file is asked too: only what differs from it was wished for by the user.
    both = await asyncio.gather(
        _run_ssh(ssh_arguments(target), environment),
        _run_ssh(["-F", "/dev/null", "--", target.host], environment),
        return_exceptions=True,
    )
    for outcome in both:
        if isinstance(outcome, BaseException):
            raise outcome
    answers, defaults = (outcome for outcome in both if not isinstance(outcome, BaseException))
    hop = hop_from_answers(target, answers, defaults, environment)
    jump = _first(answers, "proxyjump")
    if jump in ("", "none"):
        return [hop]
    route: list[Hop] = []
    for text in jump.split(","):
        route += await _route(jump_target(text, target, first=not route), environment, depth + 1)
    return [*route, hop]


def jump_target(text: str, target: Target, first: bool) -> Target:
    """One hop of a ProxyJump list. As OpenSSH does, only the first hop's own ProxyJump counts; the others have theirs."""
    text = text.strip().removeprefix("ssh://")
    hop = replace(parse_address(text, text), config_file=target.config_file, known_hosts=target.known_hosts)
    return hop if first else replace(hop, jump="none")


def ssh_arguments(target: Target) -> list[str]:
    """The arguments of `ssh -G` for a target; a host cannot be taken for an option."""
    words: list[str] = []
    if target.config_file is not None:
        words += ["-F", os.path.expanduser(target.config_file)]
    for option in target.ssh_options:
        words += ["-o", option]
    if target.port is not None:
        words += ["-p", str(target.port)]
    if target.user is not None:
        words += ["-l", target.user]
    if target.jump is not None:
        words += ["-J", target.jump]
    return [*words, *_OURS, "--", target.host]


async def _run_ssh(arguments: Sequence[str], environment: Mapping[str, str]) -> dict[str, list[str]]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        "ssh", "-G", *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=environment
    )
    try:
        async with asyncio.timeout(RESOLVE_LIMIT_S):
            out, err = await process.communicate()
    except TimeoutError:
        raise SshConfigFault(f"ssh -G did not answer within {RESOLVE_LIMIT_S:g} s (a Match exec that hangs?)") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        lines = [line for line in err.decode("utf-8", "replace").splitlines() if line.strip()]
        raise SshConfigFault("; ".join(lines[:2]) or f"ssh -G ended with status {process.returncode}")
    answers: dict[str, list[str]] = {}
    for line in out.decode("utf-8", "replace").splitlines():
        key, _, value = line.partition(" ")
        answers.setdefault(key.lower(), []).append(value.strip())
    return answers


def hop_from_answers(
    target: Target,
    answers: Mapping[str, Sequence[str]],
    defaults: Mapping[str, Sequence[str]],
    environment: Mapping[str, str],
) -> Hop:
    """One hop out of the lines of `ssh -G` (key to values, in their order). Raises SshConfigFault."""
    host = _first(answers, "hostname") or target.host
    user, port = _first(answers, "user"), int(_first(answers, "port") or 22)
    alias = _first(answers, "hostkeyalias")
    tokens = _tokens(target.host, host, user, port, alias)

    def paths(values: Sequence[str]) -> tuple[str, ...]:
        return tuple(os.path.expanduser(expand(value, tokens)) for value in values if value != "none")

    def asked(key: str) -> tuple[str, ...] | None:
        value = _first(answers, key)
        return tuple(value.split(",")) if value and value != _first(defaults, key) else None

    command = _first(answers, "proxycommand")
    timeout = _first(answers, "connecttimeout")
    files = [word for key in ("userknownhostsfile", "globalknownhostsfile") for word in _first(answers, key).split()]
    return Hop(
        alias=target.host,
        host=host,
        port=port,
        user=user or getpass.getuser(),
        identities=paths(target.identities or answers.get("identityfile", ())),
        explicit=bool(target.identities),
        identities_only=_first(answers, "identitiesonly") == "yes",
        certificates=paths(answers.get("certificatefile", ())),
        agent=_agent(_first(answers, "identityagent"), tokens, environment),
        asking=_asking(answers),
        proxy_command=expand(command, tokens) if command not in ("", "none") else None,
        known_hosts=paths([target.known_hosts] if target.known_hosts is not None else files),
        host_key_alias=alias or None,
        host_key_algorithms=asked("hostkeyalgorithms"),
        ciphers=asked("ciphers"),
        macs=asked("macs"),
        key_exchanges=asked("kexalgorithms"),
        connect_timeout_s=float(timeout) if timeout.isdigit() else None,
        family=_first(answers, "addressfamily") or "any",
    )


def bare_hop(target: Target, environment: Mapping[str, str]) -> Hop:
    """A hop with OpenSSH's defaults and no configuration file at all."""
    keys = ("id_rsa", "id_ecdsa", "id_ed25519")
    answers = {
        "user": [target.user or getpass.getuser()],
        "port": [str(target.port or 22)],
        "identityfile": [f"~/.ssh/{key}" for key in keys],
        "userknownhostsfile": ["~/.ssh/known_hosts ~/.ssh/known_hosts2"],
        "globalknownhostsfile": ["/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"],
    }
    return hop_from_answers(target, answers, {}, environment)


def _agent(value: str, tokens: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
    if value == "none":
        return None
    if value.startswith("$"):
        return environment.get(value.strip("${}")) or None
    if value in ("", "SSH_AUTH_SOCK"):
        return environment.get("SSH_AUTH_SOCK") or None
    return os.path.expanduser(expand(value, tokens))


def _asking(answers: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    if _first(answers, "batchmode") == "yes":
        return ()
    options = {"keyboard-interactive": "kbdinteractiveauthentication", "password": "passwordauthentication"}
    return tuple(method for method, option in options.items() if _first(answers, option) != "no")


def _first(answers: Mapping[str, Sequence[str]], key: str) -> str:
    values = answers.get(key) or [""]
    return values[0]


def _tokens(original: str, host: str, user: str, port: int, alias: str) -> dict[str, str]:
    name = socket.gethostname()
    return {
        "%": "%",
        "d": str(Path.home()),
        "h": host,
        "i": str(os.getuid()),
        "k": alias or original,
        "L": name.split(".", 1)[0],
        "l": name,
        "n": original,
        "p": str(port),
        "r": user,
        "u": getpass.getuser(),
    }


def expand(text: str, tokens: Mapping[str, str]) -> str:
    """Replace `%h` and the like (ssh_config(5), TOKENS). Raises SshConfigFault for one that is not known."""

    def one(match: re.Match[str]) -> str:
        letter = match[1]
        if letter not in tokens:
            raise SshConfigFault(f"%{clean(letter)} in {clean(text, 100)!r} is not supported here")
        return tokens[letter]

    return re.sub(r"%(.?)", one, text)
