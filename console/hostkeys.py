"""Known host keys: which files count, what they say of a host, and how an accepted key is pinned.

Checking cannot be switched off: a configuration that names no file leaves our own, and an unknown
key is always asked about.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from console.link_errors import HostKeyChanged, HostKeyUnknown, LinkError
from remote.errors import OperatorError
from remote.layout import write_whole


def host_pattern(host: str, port: int) -> str:
    """A host as known_hosts writes it: `host`, or `[host]:port` beside port 22 (sshd(8))."""
    return host if port == 22 else f"[{host}]:{port}"


def pin_file(folder: Path, target_name: str) -> Path:
    """Our own known hosts file of one target: keys are pinned per profile, since rented addresses change hands."""
    safe = re.sub(r"[^A-Za-z0-9_.-]+", "_", target_name).strip("._") or "target"
    if safe != target_name or len(safe) > 60:
        safe = f"{safe[:60]}-{hashlib.sha256(target_name.encode()).hexdigest()[:8]}"
    return folder / "known_hosts.d" / safe


@dataclass(frozen=True)
class KnownKey:
    """One line that names a host: `marker` is empty, `cert-authority` or `revoked`; `key` is `TYPE BASE64`."""

    file: str
    marker: str
    key: str

    @property
    def fingerprint(self) -> str:
        """As ssh shows it: `SHA256:…`."""
        return fingerprint(self.key)


def fingerprint(key: str) -> str:
    """`ssh-ed25519 SHA256:…` of a public key `TYPE BASE64 …`; raises ValueError when it is no such key."""
    kind, blob = key.split()[:2]
    digest = base64.b64encode(hashlib.sha256(base64.b64decode(blob, validate=True)).digest()).rstrip(b"=")
    return f"{kind} SHA256:{digest.decode()}"


def known_keys(files: Sequence[str], name: str) -> list[KnownKey]:
    """All keys that the files give for a name as `host_pattern` writes it.

    Hashed names, wildcards and negation are matched; lines that cannot be read are passed over,
    as ssh does, and so are files that are not there.
    """
    found = []
    for file in files:
        try:
            lines = Path(file).read_bytes().decode("utf-8", "replace").splitlines()
        except OSError:
            continue
        for line in lines:
            known = _read_line(line, file, name)
            if known is not None:
                found.append(known)
    return found


def _read_line(line: str, file: str, name: str) -> KnownKey | None:
    words = line.split()
    marker = ""
    if words and words[0].startswith("@"):
        marker = words.pop(0)[1:]
    if len(words) < 3 or words[0].startswith("#") or marker not in ("", "cert-authority", "revoked"):
        return None
    key = f"{words[1]} {words[2]}"
    try:
        fingerprint(key)
    except ValueError:
        return None
    return KnownKey(file, marker, key) if names_host(words[0], name) else None


def names_host(patterns: str, name: str) -> bool:
    """Whether the first field of a known_hosts line names a host."""
    if patterns.startswith("|1|"):
        return _hashed(patterns, name)
    matched = False
    for pattern in patterns.split(","):
        negated = pattern.startswith("!")
        if _matches(pattern.removeprefix("!").lower(), name.lower()):
            if negated:
                return False
            matched = True
    return matched


def _matches(pattern: str, name: str) -> bool:
    regex = "".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in pattern)
    return re.fullmatch(regex, name) is not None


def _hashed(field: str, name: str) -> bool:
    try:
        _, _, salt, digest = field.split("|")
        wanted = base64.b64decode(digest, validate=True)
        made = hmac.new(base64.b64decode(salt, validate=True), name.encode(), "sha1").digest()
    except ValueError:
        return False
    return hmac.compare_digest(wanted, made)


def remove_commands(keys: Sequence[KnownKey], name: str) -> list[str]:
    """The exact commands that forget these keys, one a file."""
    files = dict.fromkeys(key.file for key in keys)
    return [f"ssh-keygen -R {shlex.quote(name)} -f {shlex.quote(file)}" for file in files]


def verdict(where: str, name: str, known: Sequence[KnownKey], shown: str, pins: Path) -> LinkError:
    """What a key that is not trusted means: `shown` is its public line, `known` what the files say of the host.

    A host of which another key is known has changed; one of which none is known is unknown: the
    two have different remedies.
    """
    key = " ".join(shown.split()[:2])
    old = [one for one in known if one.marker == ""]
    if old:
        olds = list(dict.fromkeys(one.fingerprint for one in old))
        return HostKeyChanged(where, olds, fingerprint(key), remove_commands(old, name))
    return HostKeyUnknown(where, fingerprint(key), f"{name} {key}", str(pins))


def pin(file: Path, key_line: str) -> None:
    """Add a line `NAME TYPE BASE64` that the operator accepted to our own file, durable and private.

    Raises OperatorError.
    """
    line = f"{key_line}\n"
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        old = file.read_text("utf-8") if file.exists() else ""
        if old and not old.endswith("\n"):
            old += "\n"
        if line not in old:
            write_whole(Path(os.path.realpath(file)), (old + line).encode(), 0o600)
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorError(
            "pin-failed", f"the host key could not be kept in {file}: {error}", "check that the folder can be written"
        ) from None
