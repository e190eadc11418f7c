"""Where the demo's container lies, what it says of itself, and which processes are its own.

Its folder is private and marked; nothing is ever removed from a folder without that mark. Its
processes carry a mark in their environment, so that a launched generator is found again too.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from console.target import Target
from remote import procfs
from remote.errors import OperatorError
from remote.identity import Identity, alive, identify, of_stat, send
from remote.layout import write_whole

MARK_VARIABLE = "EAGLE3_DEMO"
_MARK_FILE = "eagle3-demo"
TERM_LIMIT_S = 5.0
KILL_LIMIT_S = 5.0


def default_folder() -> Path:
    """The demo's place in the user's state folder."""
    return platformdirs.user_state_path("eagle3-console") / "demo"


@dataclass(frozen=True)
class DemoInfo:
    """How to reach a running demo: `to_json` is what `demo --container-only` prints; and the pids behind it."""

    target: str
    identity: str
    known_hosts: str
    root: str
    engine_url: str
    model_path: str
    python: str
    token_budget: int
    pids: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """What a script needs, as plain JSON values: all but the pids."""
        value = asdict(self)
        del value["pids"]
        return value

    @property
    def address(self) -> Target:
        """The target to connect to; no SSH configuration of the user's is read for it."""
        user, _, place = self.target.partition("@")
        host, _, port = place.rpartition(":")
        return Target(
            name="demo",
            host=host,
            user=user,
            port=int(port),
            identities=(self.identity,),
            known_hosts=self.known_hosts,
            config_file="/dev/null",
        )

    def options(self) -> dict[str, str]:
        """The options that the demo sets, as the command line would give them."""
        return {
            "root": self.root,
            "engine_url": self.engine_url,
            "model_path": self.model_path,
            "python": self.python,
            "token_budget": str(self.token_budget),
            # A hundredth of a real budget is thirty answers: with the usual 64 in flight all would be on their way before
            # the first one tells how long they are (docs/generating.md).
            "concurrency": "16",
        }


@dataclass(frozen=True)
class DemoState:
    """`state.json`: the info, the mark of its processes, and the identities of those it started itself."""

    info: DemoInfo
    mark: str
    daemon: Identity
    started: dict[str, Identity]

    def save(self, folder: Path) -> None:
        """Write it whole, readable by its owner alone. Raises OSError."""
        value = {
            "info": asdict(self.info),
            "mark": self.mark,
            "daemon": self.daemon.to_json(),
            "started": {name: identity.to_json() for name, identity in self.started.items()},
        }
        write_whole(folder / "state.json", json.dumps(value, indent=1).encode(), 0o600)


def read_state(folder: Path) -> DemoState | None:
    """The state of a demo in this folder, running or not; None when there is none that can be read."""
    try:
        value = json.loads((folder / "state.json").read_bytes())
        daemon = Identity.from_json(value["daemon"])
        started = {name: Identity.from_json(one) for name, one in value["started"].items()}
        info = DemoInfo(**value["info"])
        if daemon is None:
            return None
        return DemoState(info, str(value["mark"]), daemon, {k: v for k, v in started.items() if v is not None})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Start or stop one demo at a time; waits for another console that is at it. Raises OperatorError."""
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(folder.with_name(f"{folder.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise OperatorError("demo-folder", f"{folder.parent} cannot be used: {error.strerror}") from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def claim(folder: Path) -> None:
    """Make the demo's private folder. Raises OperatorError when there is somebody else's already."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(folder.iterdir()) and not (folder / _MARK_FILE).exists():
            raise OperatorError(
                "demo-folder",
                f"{folder} is not empty and was not made by the demo",
                "name another folder: nothing there was touched",
            )
        folder.chmod(0o700)
        (folder / _MARK_FILE).write_text("The demo's container lies here; `eagle3-console demo --stop` removes it.\n")
    except OSError as error:
        raise OperatorError("demo-folder", f"{folder} cannot be used: {error.strerror}") from None


def remove(folder: Path) -> None:
    """Remove a demo's folder, and no other. Raises OperatorError."""
    if not (folder / _MARK_FILE).exists():
        return
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise OperatorError("demo-folder", f"{folder} could not be removed: {error}") from None


def members(mark: str, started: dict[str, Identity]) -> list[Identity]:
    """The demo's living processes: those it started, and all whose environment carries its mark; never the caller."""
    found = {identity.pid: identity for identity in started.values() if alive(identity)}
    for stat in procfs.stats():
        if stat.pid not in found and stat.pid != os.getpid() and not stat.dead and _carries(stat.pid, mark):
            found[stat.pid] = of_stat(stat)
    return list(found.values())


def _carries(pid: int, mark: str) -> bool:
    try:
        return f"{MARK_VARIABLE}={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def end_all(mark: str, started: dict[str, Identity]) -> list[Identity]:
    """TERM, then KILL for whatever carries the mark, until none is left; returns what could not be ended."""
    for number, limit_s in ((signal.SIGTERM, TERM_LIMIT_S), (signal.SIGKILL, KILL_LIMIT_S)):
        for identity in members(mark, started):
            send(identity, number)
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            if not members(mark, started):
                return []
            time.sleep(0.05)
            if number == signal.SIGKILL:
                for identity in members(mark, started):
                    send(identity, number)
    return members(mark, started)


def of_process(pid: int) -> Identity:
    """The identity of a process that was just started. Raises OperatorError when it ended at once."""
    found = identify(pid)
    if found is None:
        raise OperatorError("demo-start", f"a process of the demo (pid {pid}) ended at once", "see its log")
    return found
