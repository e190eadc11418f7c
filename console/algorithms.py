"""Which algorithms are offered to a server, from what is known of it and what the user's configuration asks for."""

from __future__ import annotations

from collections.abc import Sequence

_PLAIN = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)
_CERTIFIED = tuple(f"{name}-cert-v01@openssh.com" for name in _PLAIN)
_OLD = ("ssh-rsa", "ssh-rsa-cert-v01@openssh.com")
"""SHA-1 signatures: taken only where the user's configuration names them."""


def host_key_algorithms(known: Sequence[str], certified: bool, asked: Sequence[str] | None) -> list[str]:
    """Host key algorithms in the order to offer them.

    Those of the keys that are known of the host come first, so that a host with several keys shows
    the one we know; all others after them, so that a host whose key changed its type is told from
    one that is unknown. Certificates are asked for only where an authority is trusted, since a
    server would else show one that means nothing here. `asked` is the user's own list.
    """
    order = [*(_CERTIFIED if certified else ()), *known, *_PLAIN]
    if asked is None:
        return list(dict.fromkeys(name for name in order if name not in _OLD))
    allowed = [name for name in (*order, *_OLD) if name in asked and (certified or "-cert-" not in name)]
    return list(dict.fromkeys(allowed or order))


def usable(asked: Sequence[str] | None, possible: Sequence[bytes]) -> list[str]:
    """Of the names the user's configuration asks for, those that we have; empty: the library's own choice."""
    have = {name.decode() for name in possible}
    return [name for name in asked or () if name in have]
