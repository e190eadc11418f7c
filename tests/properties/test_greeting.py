"""A server's greeting, cut anywhere and made of anything."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from console.greeting import NAMES, Greeting, read_kexinit, without_match

algorithm = st.text("abcdefghijklmnopqrstuvwxyz0123456789-@.", min_size=1, max_size=12)
lists = st.tuples(*(st.lists(algorithm, max_size=4, unique=True) for _ in NAMES))


def kexinit(offers: tuple[list[str], ...]) -> bytes:
    """The payload of an SSH_MSG_KEXINIT, written as RFC 4253 §7.1 has it."""
    body = b"".join(struct.pack(">I", len(names)) + names for names in (",".join(each).encode() for each in offers))
    return bytes([20]) + bytes(16) + body + 2 * struct.pack(">I", 0) + bytes(5)


def packet(payload: bytes) -> bytes:
    padding = 4 + -(len(payload) + 9) % 8
    return struct.pack(">IB", len(payload) + padding + 1, padding) + payload + bytes(padding)


@given(
    before=st.lists(st.text("abc \t", min_size=1, max_size=8).filter(lambda line: line.strip() != ""), max_size=3),
    offers=lists,
    after=st.binary(max_size=40),
    cuts=st.lists(st.integers(min_value=0, max_value=600), max_size=6),
)
def test_it_is_read_alike_however_it_arrives(
    before: list[str], offers: tuple[list[str], ...], after: bytes, cuts: list[int]
) -> None:
    lines = "".join(f"{line}\r\n" for line in before).encode()
    data = lines + b"SSH-2.0-Test_1.0\r\n" + packet(kexinit(offers)) + after
    greeting, at = Greeting(), 0
    for cut in [*sorted(cuts), len(data)]:
        greeting.feed(data[at:cut])
        at = max(at, cut)
    assert greeting.identification == "SSH-2.0-Test_1.0"
    assert len(greeting.heard) == len(before)
    assert greeting.offers == {name: tuple(each) for name, each in zip(NAMES, offers, strict=True)}


@given(st.lists(st.binary(max_size=60), max_size=20), st.booleans())
def test_nothing_that_arrives_can_harm(pieces: list[bytes], greeted: bool) -> None:
    greeting = Greeting()
    for piece in [b"SSH-2.0-x\n"] * greeted + pieces:
        greeting.feed(piece)
    assert greeting.said().isprintable() and all(line.isprintable() for line in greeting.heard)
    read_kexinit(b"".join(pieces))


@given(ours=lists, theirs=lists)
def test_a_mismatch_is_told_exactly_where_there_is_one(
    ours: tuple[list[str], ...], theirs: tuple[list[str], ...]
) -> None:
    mine, other = dict(zip(NAMES, ours, strict=True)), dict(zip(NAMES, theirs, strict=True))
    missing = [name for name in NAMES if mine[name] and not set(mine[name]) & set(other[name])]
    told = without_match(mine, other)
    if not missing:
        assert told == ""
    else:
        assert told.startswith(f"no common {missing[0].removesuffix(' back')}: ")


def test_a_cipher_that_authenticates_needs_no_mac() -> None:
    theirs = {name: ("x",) for name in NAMES} | {"cipher": ("aes256-gcm@openssh.com",), "cipher back": ("aes256-ctr",)}
    ours = {"cipher": ["aes256-ctr", "aes256-gcm@openssh.com"], "MAC": ["hmac-sha2-256"]}
    assert without_match(ours, theirs).startswith("no common MAC"), "the other way has a cipher that needs one"
    assert without_match(ours, theirs | {"MAC back": ("hmac-sha2-256",)}) == ""
