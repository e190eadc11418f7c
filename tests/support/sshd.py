"""A real OpenSSH server on a loopback port, with throwaway keys and, where root, throwaway users."""

from __future__ import annotations

import getpass
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from console.target import Target
from tests.support.needs import find


def free_port() -> int:
    """A TCP port of loopback that nobody uses just now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def tool(*words: str) -> str:
    """Run a command that must succeed; what it printed."""
    done = subprocess.run(words, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.stdout


def keygen(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    """Make a key pair and return the private half's path."""
    # One round of key derivation: a passphrase here is to be asked for, not to withstand anybody.
    # A fixture that is set up once more finds its own key there, which ssh-keygen would not replace.
    path.unlink(missing_ok=True)
    tool("ssh-keygen", "-q", "-t", kind, "-a", "1", "-N", passphrase, "-C", path.name, "-f", str(path))
    return path


def wait_for_port(port: int, host: str = "127.0.0.1", limit_s: float = 10.0) -> None:
    """Return once something listens there; raises TimeoutError."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        with socket.socket() as sock:
            sock.settimeout(1.0)
            if sock.connect_ex((host, port)) == 0:
                return
        time.sleep(0.02)
    raise TimeoutError(f"nothing listens on {host}:{port}")


@dataclass(frozen=True)
class User:
    """Somebody who may sign in."""

    name: str
    home: Path


@dataclass
class Server:
    """A started SSH server: where it is, whose key opens it, and which file knows it."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]
    identity: Path
    host_key: Path
    user: str = field(default_factory=getpass.getuser)
    host: str = "127.0.0.1"

    @property
    def known_hosts(self) -> Path:
        """A known hosts file that holds the server's key."""
        path = self.folder / f"known_hosts-{self.port}"
        if not path.exists():
            kind, blob = self.host_key.with_suffix(".pub").read_text().split()[:2]
            path.write_text(f"[{self.host}]:{self.port} {kind} {blob}\n")
        return path

    @property
    def log(self) -> str:
        """What the server wrote so far."""
        return (self.folder / f"log-{self.port}").read_text(errors="replace")

    def target(self, user: str | None = None) -> Target:
        """The console's target for it, with its key and known hosts named and no file of the real user's read."""
        return Target(
            name=f"sshd-{self.port}",
            host=self.host,
            port=self.port,
            user=user or self.user,
            identities=(str(self.identity),),
            known_hosts=str(self.known_hosts),
            config_file="/dev/null",
        )

    def unknown(self, user: str | None = None) -> Target:
        """The same without the host's key being known."""
        return replace(self.target(user), known_hosts=str(self.folder / "nobody-is-known"))

    def sessions(self) -> list[int]:
        """The processes that serve connections: the listener's descendants that are sshd."""
        found, wanted = [], [self.process.pid]
        while wanted:
            parent = wanted.pop()
            for child in children(parent):
                wanted.append(child)
                with suppress(OSError):  # it may end meanwhile
                    if Path(f"/proc/{child}/comm").read_text().startswith(("sshd", "dropbear")):
                        found.append(child)
        return found

    def stop(self) -> None:
        """End the listener and its sessions."""
        for pid in [*self.sessions(), self.process.pid]:
            try:
                os.kill(pid, signal.SIGCONT)
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()


def wait_until_gone(pid: int, limit_s: float = 10.0) -> None:
    """Return once a process has ended; raises TimeoutError."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if not select.select([fd], [], [], limit_s)[0]:
            raise TimeoutError(f"process {pid} still runs")
    finally:
        os.close(fd)


def children(parent: int) -> list[int]:
    """The direct children of a process."""
    try:
        words = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    except OSError:
        return []
    return [int(word) for word in words]


@contextmanager
def sshd(
    folder: Path,
    lines: Sequence[str] = (),
    *,
    identity: Path | None = None,
    prefix: Sequence[str] = (),
    host: str = "127.0.0.1",
) -> Iterator[Server]:
    """Start a server in a folder that everybody may enter; `lines` are added to its configuration (first wins)."""
    program = find("sshd")
    assert program is not None, "call needs('sshd') first"
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    port = free_port()
    key = identity or keygen(folder / f"client-{port}")
    host_key = keygen(folder / f"host-{port}")
    keys = folder / f"authorized-{port}"
    shutil.copy(key.with_suffix(".pub"), keys)
    keys.chmod(0o644)
    home = folder / "home"
    home.mkdir(exist_ok=True)
    config = folder / f"sshd_config-{port}"
    text = [
        *lines,
        f"Port {port}",
        f"ListenAddress {host}",
        f"HostKey {host_key}",
        f"AuthorizedKeysFile {keys}",
        "StrictModes no",
        "UsePAM no",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        f"PidFile {folder}/pid-{port}",
        "PrintMotd no",
        "PerSourcePenalties no" if _knows_penalties(program) else "",
        # No start-up file, cache or key of whoever runs the tests is read or written; the throwaway users have homes.
        f"Match User {getpass.getuser()}",
        f"SetEnv HOME={home}",
    ]
    config.write_text("\n".join(text) + "\n")
    log = folder / f"log-{port}"
    process = subprocess.Popen(
        [*prefix, program, "-D", "-f", str(config), "-E", str(log)], stdin=subprocess.DEVNULL, start_new_session=True
    )
    server = Server(folder, port, process, key, host_key, host=host)
    try:
        if not prefix:
            wait_for_port(port, host)
        yield server
    finally:
        server.stop()


def _knows_penalties(program: str) -> bool:
    """OpenSSH 9.8 and later keep away whoever fails often, which tests do."""
    said = subprocess.run([program, "-V"], capture_output=True, text=True, check=False).stderr
    digits = said.partition("OpenSSH_")[2][:4]
    try:
        return float(digits.split("p")[0]) >= 9.8
    except ValueError:
        return False


@contextmanager
def throwaway_user(
    shell: str, files: dict[str, str] | None = None, home: Path | None = None, password: str | None = None
) -> Iterator[User]:
    """A user of this machine with a shell and start-up files, gone afterwards. Needs root."""
    name = f"e3t{secrets.token_hex(4)}"
    base = Path(tempfile.mkdtemp(prefix="e3-home-", dir="/tmp"))
    base.chmod(0o755)
    place = home or base / name
    subprocess.run(["useradd", "-M", "-d", str(place), "-s", shell, "-p", "*", name], check=True, capture_output=True)
    try:
        if home is None:
            place.mkdir(mode=0o755)
            for file, text in (files or {}).items():
                path = place / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            subprocess.run(["chown", "-R", f"{name}:", str(place)], check=True)
        if password is not None:
            subprocess.run(["chpasswd"], input=f"{name}:{password}".encode(), check=True, capture_output=True)
        yield User(name, place)
    finally:
        _end_processes_of(name)
        subprocess.run(["userdel", "-f", name], check=False, capture_output=True)
        shutil.rmtree(base, ignore_errors=True)


def _end_processes_of(name: str) -> None:
    import pwd

    uid = pwd.getpwnam(name).pw_uid
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if entry.stat().st_uid == uid:
                    os.kill(int(entry.name), signal.SIGKILL)
                    # userdel refuses while one of them is still there.
                    wait_until_gone(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
