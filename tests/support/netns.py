"""A second network on this machine, to be cut, silenced or slowed: a namespace at the other end of a veth pair."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.support.needs import find, needs, needs_root


def run(*words: str) -> None:
    """A command that must succeed."""
    program = find(words[0])
    assert program is not None
    subprocess.run([program, *words[1:]], check=True, capture_output=True, stdin=subprocess.DEVNULL)


@dataclass(frozen=True)
class Namespace:
    """`address` is the far end's; commands run there by `prefix`."""

    name: str
    near: str
    far: str
    address: str

    @property
    def prefix(self) -> tuple[str, ...]:
        """Words before a command that is to run in the namespace."""
        return (str(find("ip")), "netns", "exec", self.name)

    def silence(self) -> None:
        """Drop everything that arrives, without a word: what a lost Wi-Fi looks like."""
        run("ip", "netns", "exec", self.name, "nft", "add table inet cut")
        hook = "{ type filter hook input priority 0; policy drop; }"
        run("ip", "netns", "exec", self.name, "nft", f"add chain inet cut arriving {hook}")

    def lose(self, percent: int) -> None:
        """Drop some of what arrives, at random."""
        run("ip", "netns", "exec", self.name, "nft", "add table inet cut")
        hook = "{ type filter hook input priority 0; policy accept; }"
        run("ip", "netns", "exec", self.name, "nft", f"add chain inet cut arriving {hook}")
        run(
            "ip",
            "netns",
            "exec",
            self.name,
            "nft",
            f"add rule inet cut arriving numgen random mod 100 < {percent} drop",
        )

    def heal(self) -> None:
        """Undo `silence` and `lose`."""
        run("ip", "netns", "exec", self.name, "nft", "delete table inet cut")

    def cut(self) -> None:
        """Take the near interface down: what a pulled cable looks like."""
        run("ip", "link", "set", self.near, "down")

    def mend(self) -> None:
        """Put it in again."""
        run("ip", "link", "set", self.near, "up")

    def slow(self, rate: str) -> None:
        """Limit what comes from the far end, and what goes there."""
        for words in (["qdisc", "replace", "dev", self.near], ["-n", self.name, "qdisc", "replace", "dev", self.far]):
            run("tc", *words, "root", "tbf", "rate", rate, "burst", "8kb", "latency", "500ms")


@contextmanager
def namespace() -> Iterator[Namespace]:
    """A fresh namespace with a link to it; skips where that is not permitted."""
    needs_root("network namespaces")
    needs("ip", "nft", "tc")
    number = os.getpid() % 200 + 20
    space = Namespace(f"e3n{os.getpid()}", f"e3a{os.getpid()}"[:15], f"e3b{os.getpid()}"[:15], f"10.{number}.77.2")
    try:
        run("ip", "netns", "add", space.name)
    except subprocess.CalledProcessError as error:
        # Not a matter of installing something: the same promises are held by test_delays there.
        pytest.xfail(f"needs network namespaces: {error.stderr.decode(errors='replace').strip()}")
    try:
        run("ip", "link", "add", space.near, "type", "veth", "peer", "name", space.far)
        run("ip", "link", "set", space.far, "netns", space.name)
        run("ip", "addr", "add", f"10.{number}.77.1/24", "dev", space.near)
        run("ip", "link", "set", space.near, "up")
        run("ip", "-n", space.name, "addr", "add", f"{space.address}/24", "dev", space.far)
        run("ip", "-n", space.name, "link", "set", space.far, "up")
        run("ip", "-n", space.name, "link", "set", "lo", "up")
        yield space
    finally:
        subprocess.run([str(find("ip")), "link", "del", space.near], check=False, capture_output=True)
        subprocess.run([str(find("ip")), "netns", "del", space.name], check=False, capture_output=True)
