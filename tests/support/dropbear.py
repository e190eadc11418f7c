"""A real dropbear on a loopback port: what small images and routers run instead of OpenSSH."""

from __future__ import annotations

import getpass
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.needs import find
from tests.support.sshd import Server, User, free_port, keygen, tool, wait_for_port


@contextmanager
def dropbear(folder: Path, user: User | None = None) -> Iterator[Server]:
    """Start a server. It takes keys from the user's home alone, so it needs a throwaway user (or our own home)."""
    program, maker = find("dropbear"), find("dropbearkey")
    assert program is not None and maker is not None, "call needs('dropbear') first"
    port = free_port()
    key = keygen(folder / f"client-{port}")
    host_key = folder / f"host-{port}"
    said = tool(maker, "-t", "ed25519", "-f", str(host_key))
    public = next(line for line in said.splitlines() if line.startswith("ssh-ed25519"))
    host_key.with_suffix(".pub").write_text(public)
    if user is not None:
        keys = user.home / ".ssh" / "authorized_keys"
        keys.parent.mkdir(mode=0o700, exist_ok=True)
        keys.write_text(key.with_suffix(".pub").read_text())
        tool("chown", "-R", f"{user.name}:", str(keys.parent))
        keys.chmod(0o600)
    with (folder / f"log-{port}").open("wb") as log:
        process = subprocess.Popen(
            [
                program,
                "-F",
                "-E",
                "-s",
                "-r",
                str(host_key),
                "-p",
                f"127.0.0.1:{port}",
                "-P",
                str(folder / f"pid-{port}"),
            ],
            stdin=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )
    server = Server(folder, port, process, key, host_key, user.name if user else getpass.getuser())
    try:
        wait_for_port(port)
        yield server
    finally:
        server.stop()
