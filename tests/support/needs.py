"""Listed skips: a test says which program or right it needs. Under the landing check a skip is a failure (conftest)."""

from __future__ import annotations

import os
import shutil

import pytest

_APT = {
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "dropbear": "dropbear-bin",
    "ip": "iproute2",
    "nft": "nftables",
    "chromium": "chromium",
}


def find(program: str) -> str | None:
    """Where a program is, the system folders included that are not on everybody's PATH."""
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def needs(*programs: str) -> None:
    """Skip the test, with its reason, unless these programs are installed."""
    for program in programs:
        if find(program) is None:
            pytest.skip(f"needs {program} (apt-get install {_APT.get(program, program)})")


def needs_root(what: str) -> None:
    """Skip the test unless it runs as root; `what` says what for."""
    if os.geteuid() != 0:
        pytest.skip(f"needs root: {what}")


def needs_shm() -> None:
    """Skip the test where there is no /dev/shm to write to, as in some containers: the product goes elsewhere there."""
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("needs a /dev/shm that can be written")
