"""What a server says before anything is encrypted: its identification line and the algorithms it offers. Pure.

The SSH library looks at this too, but forgets it when the server hangs up in the same moment; what the operator is
told must not depend on which came first. RFC 4253: identification §4.2, packets §6, algorithm negotiation §7.1.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence

from remote.text import clean

_KEXINIT = 20
_COOKIE_BYTES = 16
_KEPT_BYTES = 1 << 16
"""Far more than a greeting; a peer that sends anything else is not remembered for longer."""
_KEPT_LINES = 20

_SEALED = re.compile(r"gcm|poly1305")
"""Ciphers that authenticate what they carry: no MAC is chosen beside them."""

NAMES = (
    "key exchange",
    "host key",
    "cipher",
    "cipher back",
    "MAC",
    "MAC back",
    "compression",
    "compression back",
)
"""What the first lists of an SSH_MSG_KEXINIT are about, in their order; `back` is from the server to us."""


class Greeting:
    """Takes a server's first bytes as they come. `heard` is all there was before the identification line, cleaned."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.identification: str | None = None
        """`SSH-2.0-OpenSSH_9.2`; None while the peer has not said that it speaks SSH."""
        self.offers: Mapping[str, tuple[str, ...]] | None = None
        """Algorithms by `NAMES`; None while the list has not come."""
        self.done = False
        """Nothing more is looked at."""
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take bytes in; anything after the list of algorithms is passed over."""
        if self.done:
            return
        self._rest += data
        while self.identification is None and b"\n" in self._rest:
            line, _, self._rest = self._rest.partition(b"\n")
            self._take_line(line.removesuffix(b"\r"))
        if self.identification is not None:
            self._take_packet()
        self.done = self.done or len(self._rest) > _KEPT_BYTES
        if self.done:
            self._rest = b""

    def said(self) -> str:
        """What the peer said in place of an identification, in one line; empty when it said nothing."""
        rest = clean(self._rest[:400]).strip() if self.identification is None else ""
        return "; ".join([*self.heard[-2:], rest] if rest else self.heard[-2:])

    def _take_line(self, line: bytes) -> None:
        if line.startswith(b"SSH-"):
            self.identification = clean(line, 100)
        elif line.strip() and len(self.heard) < _KEPT_LINES:
            self.heard.append(clean(line, 160))

    def _take_packet(self) -> None:
        """The first packet, unencrypted: length, padding length, payload, padding."""
        if len(self._rest) < 5:
            return
        length, padding = struct.unpack_from(">IB", self._rest)
        if length > _KEPT_BYTES or padding + 1 > length:
            self.done = True
        elif len(self._rest) >= 4 + length:
            self.offers = read_kexinit(self._rest[5 : 4 + length - padding])
            self.done = True


def read_kexinit(payload: bytes) -> Mapping[str, tuple[str, ...]] | None:
    """The algorithms of an SSH_MSG_KEXINIT by `NAMES`; None when it is no such message."""
    if not payload.startswith(bytes([_KEXINIT])):
        return None
    at, found = 1 + _COOKIE_BYTES, {}
    for name in NAMES:
        if at + 4 > len(payload):
            return None
        (size,) = struct.unpack_from(">I", payload, at)
        at += 4 + size
        if at > len(payload):
            return None
        names = payload[at - size : at].decode("ascii", "replace")
        found[name] = tuple(names.split(",")) if names else ()
    return found


def without_match(ours: Mapping[str, Sequence[str]], theirs: Mapping[str, Sequence[str]]) -> str:
    """The first kind of algorithm of which both sides have none in common, with both lists; empty when there is none.

    Lists are by `NAMES`; ours need not tell the two directions apart.
    """
    chosen: dict[str, str | None] = {}
    for name in NAMES:
        kind, other = name.removesuffix(" back"), theirs.get(name, ())
        mine = ours.get(name, ours.get(kind, ()))
        chosen[name] = next((one for one in mine if one in other), None)
        needless = kind == "MAC" and _SEALED.search(chosen[name.replace("MAC", "cipher")] or "") is not None
        if chosen[name] is None and mine and not needless:
            return f"no common {kind}: asked for {','.join(mine)}; it has {','.join(other) or 'none'}"
    return ""
