"""What an operator may type as TARGET, and the address it becomes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.text import clean

_FORMS = (
    "write a profile's name, [user@]host[:port], an alias of ~/.ssh/config, a whole ssh command in quotes, or local"
)
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*|[0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.\-]+)?")
_USER = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.\-@\\+]*\$?")
_FLAGS_WITH_VALUE = frozenset("BbcDEeFIiJLlmOopQRSWw")
_IGNORED_WITH_VALUE = frozenset("BbcDEeLmRw")
_IGNORED_FLAGS = frozenset("46AaCfGgKkMNnqsTtVvXxYy")


@dataclass(frozen=True)
class Target:
    """Where to connect to. `name` is what the operator typed or the profile's name.

    `ssh_options` are `-o` words of a pasted command (`Key=value`), passed to `ssh -G` as they
    are; `config_file` its `-F`. What is None is left to the SSH configuration.
    """

    name: str
    kind: str = "ssh"
    """`ssh`, `local` or `demo`."""
    host: str = ""
    user: str | None = None
    port: int | None = None
    identities: tuple[str, ...] = ()
    known_hosts: str | None = None
    jump: str | None = None
    ssh_options: tuple[str, ...] = ()
    config_file: str | None = None

    def __str__(self) -> str:
        """The address for the top line: `root@1.2.3.4:22001`, `local`, `demo`."""
        if self.kind != "ssh":
            return self.kind
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = f":{self.port}" if self.port is not None else ""
        return f"{self.user}@{host}{port}" if self.user else host + port


def _usage(message: str, remedy: str = _FORMS) -> OperatorError:
    return OperatorError("usage", message, remedy, ExitCode.USAGE)


def parse_port(text: str) -> int:
    """A TCP port. Raises OperatorError."""
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 1 <= int(text) <= 65535:
        raise _usage(f"{clean(text)!r} is not a port", "write a number from 1 to 65535")
    return int(text)


def parse_target(text: str, profiles: Iterable[str] = ()) -> Target:
    """The target that `text` names; a profile's name wins and gives an empty target of that name to be filled.

    Raises OperatorError (usage) saying which forms there are.
    """
    text = text.strip()
    if not text:
        raise _usage("no target is given")
    if text in profiles:
        return Target(text)
    if text in ("local", "demo"):
        return Target(text, kind=text)
    if text.startswith("ssh://"):
        return parse_address(text[len("ssh://") :].rstrip("/"), text)
    if re.match(r"ssh\s", text):
        return parse_command(text)
    return parse_address(text, text)


def parse_address(text: str, name: str) -> Target:
    """`[user@]host[:port]`, an IPv6 address in brackets or bare. Raises OperatorError."""
    user, at, rest = text.rpartition("@")
    if at and not _USER.fullmatch(user):
        raise _usage(f"{clean(text)!r} is no address: {clean(user)!r} cannot be a user's name")
    host, port = _host_and_port(rest, text)
    if not _HOST.fullmatch(host):
        raise _usage(f"{clean(text)!r} is neither a profile nor an address")
    return Target(name, host=host, user=user or None, port=port)


def _host_and_port(rest: str, whole: str) -> tuple[str, int | None]:
    bracketed = re.fullmatch(r"\[([^\]]*)\](?::(.*))?", rest)
    if bracketed is not None:
        return bracketed[1], None if bracketed[2] is None else parse_port(bracketed[2])
    if rest.count(":") > 1:
        return rest, None
    host, colon, port = rest.partition(":")
    if colon and not port:
        raise _usage(f"{clean(whole)!r} ends in a colon without a port")
    return host, parse_port(port) if colon else None


def parse_command(text: str) -> Target:
    """A pasted `ssh root@1.2.3.4 -p 22001 -i key -J jump -o Key=value`. Raises OperatorError.

    Flags that only shape a terminal session or forward ports are ignored; a remote command too.
    """
    try:
        words = shlex.split(text)[1:]
    except ValueError as error:
        raise _usage(f"the ssh command cannot be read: {error}", "check its quotes") from None
    flags, places = _split_flags(words)
    if not places:
        raise _usage("the ssh command names no host")
    target = parse_address(places[0].removeprefix("ssh://").rstrip("/"), text)
    options: list[str] = []
    for flag, value in flags:
        target = _with_flag(target, flag, value, options)
    # `ssh -p 22 host:…` has no port in its address; `ssh://` may.
    return replace(target, name=str(target), ssh_options=tuple(options))


def _with_flag(target: Target, flag: str, value: str, options: list[str]) -> Target:
    if flag == "p":
        return replace(target, port=parse_port(value))
    if flag == "l":
        # It may become part of a ProxyCommand (%r), which a shell runs.
        if not _USER.fullmatch(value):
            raise _usage(f"{clean(value)!r} cannot be a user's name")
        return replace(target, user=value)
    if flag == "i":
        return replace(target, identities=(*target.identities, value))
    if flag == "J":
        return replace(target, jump=value)
    if flag == "F":
        return replace(target, config_file=value)
    if flag == "o":
        options.append(value)
        return target
    raise _usage(f"the ssh option -{flag} cannot be used here", "leave it out, or write the address alone")


def _split_flags(words: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    flags: list[tuple[str, str]] = []
    places: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            places += rest[:1]
            break
        if not word.startswith("-") or word == "-":
            places.append(word)
            # ssh takes flags after the host too; the first word after it that is none begins the remote command.
            if len(places) > 1:
                break
            continue
        letters = word[1:]
        while letters:
            flag, letters = letters[0], letters[1:]
            if flag in _FLAGS_WITH_VALUE:
                value = letters or (rest.pop(0) if rest else "")
                if not value:
                    raise _usage(f"the ssh option -{flag} has no value", "check the command")
                if flag not in _IGNORED_WITH_VALUE:
                    flags.append((flag, value))
                break
            if flag not in _IGNORED_FLAGS:
                raise _usage(f"the ssh option -{clean(flag)} is not known", "check the command")
    return flags, places
