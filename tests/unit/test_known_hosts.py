"""Our reading of known hosts files agrees with ssh-keygen's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from console.hostkeys import fingerprint, host_pattern, known_keys, names_host, pin, pin_file
from tests.support.needs import needs
from tests.support.sshd import keygen, tool

PATTERNS = [
    "gpu.example",
    "GPU.example,10.0.0.7",
    "*.example",
    "gpu.*,!gpu.example",
    "!gpu.example,*",
    "g?u.example",
    "[gpu.example]:2222",
    "[*]:2222",
    "other.example",
    "*",
]
NAMES = ["gpu.example", "10.0.0.7", "[gpu.example]:2222", "nothing"]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("hashed", [False, True])
def test_a_line_names_the_hosts_that_ssh_keygen_finds(pattern: str, hashed: bool, tmp_path: Path) -> None:
    needs("ssh-keygen")
    key = keygen(tmp_path / "key").with_suffix(".pub").read_text().split()
    file = tmp_path / "known"
    file.write_text(f"{pattern} {key[0]} {key[1]} a comment\n")
    if hashed:
        tool("ssh-keygen", "-q", "-H", "-f", str(file))
    for name in NAMES:
        found = subprocess.run(["ssh-keygen", "-F", name, "-f", str(file)], capture_output=True, check=False)
        assert bool(known_keys([str(file)], name)) == (found.returncode == 0), name


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_fingerprints_are_those_that_ssh_shows(kind: str, tmp_path: Path) -> None:
    needs("ssh-keygen")
    public = keygen(tmp_path / "key", kind).with_suffix(".pub")
    assert fingerprint(public.read_text()).split()[1] == tool("ssh-keygen", "-lf", str(public)).split()[1]


def test_names_and_ports() -> None:
    assert (host_pattern("h", 22), host_pattern("h", 23), host_pattern("::1", 23)) == ("h", "[h]:23", "[::1]:23")
    assert not names_host("|1|broken", "h") and not names_host("", "h")


def test_pinned_keys_of_targets_never_share_a_file(tmp_path: Path) -> None:
    names = ["gpu8", "gpu/8", "gpu:8", "../gpu8", "", ".", "root@1.2.3.4:22001", "x" * 300]
    files = {pin_file(tmp_path, name) for name in names}
    assert len(files) == len(names)
    for file in files:
        assert file.parent == tmp_path / "known_hosts.d"
        pin(file, "h ssh-ed25519 AAAA")
        pin(file, "h ssh-ed25519 AAAA")
        assert file.read_text() == "h ssh-ed25519 AAAA\n"
