"""The ledger of one address as a file of this user's, held by one watch at a time."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from pathlib import Path

import platformdirs

from console.ledger import Ledger, Told, read_told
from remote.errors import OperatorError
from remote.layout import write_whole


def told_folder() -> Path:
    """Where the ledgers lie: the user's folder for state (`$XDG_STATE_HOME`)."""
    return platformdirs.user_state_path("eagle3-console") / "told"


class ToldFile:
    """`NAME.json`, and `NAME.lock` that says who posts: a second watch waits for the first to end.

    NAME is a digest of the container, the root and the address, so that no secret is on the disk.
    """

    def __init__(self, place: str, address: str, folder: Path | None = None) -> None:
        name = hashlib.sha256(f"{place}\n{address}".encode()).hexdigest()[:24]
        self._path = (folder or told_folder()) / f"{name}.json"
        self._lock = -1

    def take(self) -> bool:
        """Whether this process is the one that posts; asked again until it is. Raises OperatorError."""
        if self._lock >= 0:
            return True
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise OperatorError(
                "state-folder",
                f"{self._path.parent} cannot be written: {error.strerror}",
                "it remembers what was posted; set XDG_STATE_HOME to a folder that can",
            ) from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        self._lock = fd
        return True

    def read(self) -> dict[str, Told]:
        """What was told before; nothing when there is no file. Raises ValueError or OSError when it cannot be read."""
        try:
            return read_told(json.loads(self._path.read_bytes()))
        except FileNotFoundError:
            return {}

    def write(self, ledger: Ledger) -> None:
        """Keep it. Raises OSError."""
        write_whole(self._path, json.dumps(ledger.to_json()).encode(), 0o600)

    def release(self) -> None:
        """Let another watch post."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
