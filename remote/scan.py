"""The scan: every record of every dataset checked, and only what was appended read again.

`Scanner` remembers, `scan_root` looks once. Both give the same result: the memory saves
work and never changes an answer.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remote.dataset_memory import DatasetMemory
from remote.dataset_scan import DatasetScan, FileFacts
from remote.errors import OperatorError
from remote.index import index_key, load_index, save_index
from remote.layout import DECLARED, folder_names
from remote.nearby import nearby
from remote.options import Budget
from remote.records import Rules
from remote.text import clean
from remote.watched import is_racy

__all__ = ["DatasetScan", "FileFacts", "RootScan", "Scanner", "scan_root"]


KEEP_AFTER_S = 5.0
"""A look that takes longer keeps what it has, dataset by dataset."""


@dataclass(frozen=True)
class RootScan:
    """All datasets at one moment: B1 to B8, then whatever else lies in the root, by name.

    `at` is in seconds since the epoch by the container's clock.
    """

    at: float
    root: str
    datasets: tuple[DatasetScan, ...]

    def dataset(self, folder: str) -> DatasetScan:
        """One dataset by its folder's name. Raises KeyError."""
        for dataset in self.datasets:
            if dataset.folder == folder:
                return dataset
        raise KeyError(folder)

    def to_json(self, states: Mapping[str, str], budget: Budget) -> dict[str, Any]:
        """`scan --json`; `states` gives each folder's state word."""
        return {
            "at": round(self.at, 3),
            "root": clean(self.root, 4096),
            "datasets": [
                dataset.to_json(states[dataset.folder], budget.of(dataset.folder)) for dataset in self.datasets
            ],
        }


def scan_root(root: Path, rules: Rules) -> RootScan:
    """Look at a root once, remembering nothing. Raises OperatorError (`no-root`)."""
    return Scanner(root, rules).poll()


class Scanner:
    """Looks at a root again and again. Its methods may be called from any thread.

    `index_path` keeps the memory between processes; `index_error` says why the last `save`
    failed or the index was not used, or is None.
    """

    def __init__(
        self,
        root: Path,
        rules: Rules,
        index_path: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.root = root
        self.rules = rules
        self.index_path = index_path
        self.index_error: str | None = None
        self._clock = clock
        self._path = str(root)
        self._lock = threading.RLock()
        self._memories: dict[str, DatasetMemory] = {}
        self._root_stamp: tuple[int, int, int, int] | None = None
        self._order: tuple[DatasetMemory, ...] = ()
        self._turn = 0
        self._loaded = False
        self._saved: tuple[int, ...] | None = None
        self._key = index_key(self._path, rules)

    @property
    def bytes_read(self) -> int:
        """Bytes read from the datasets' files so far."""
        return sum(watched.bytes_read for memory in list(self._memories.values()) for watched, _ in memory.files)

    def poll(self) -> RootScan:
        """Look at every file and read what is new. Raises OperatorError (`no-root`, `root-unreadable`)."""
        with self._lock:
            self._remember()
            self._list_root()
            now_s = self._clock()
            scans = self._look_at_all(now_s)
            return RootScan(now_s, self._path, tuple(scan for scan in scans if _is_shown(scan)))

    def _look_at_all(self, now_s: float) -> list[DatasetScan]:
        scans: list[DatasetScan] = []
        saved_s = time.monotonic()
        for memory in self._order:
            scans.append(memory.look(now_s))
            if time.monotonic() - saved_s > KEEP_AFTER_S and self.index_path is not None:
                # The first look at a full tree: when it is cut off, the next one goes on from here.
                self._write_index(self._order[: len(scans)])
                saved_s = time.monotonic()
        return scans

    def background(self, max_bytes: int) -> int:
        """Compare up to about `max_bytes` of old bytes with their checksums, file after file.

        Catches what no file time tells. A file that differs is read again at once by the next
        `poll`. Returns the bytes compared; 0 when there was nothing to compare.
        """
        with self._lock:
            files = [watched for memory in self._order for watched, _ in memory.files]
            before = self.bytes_read
            for _ in range(len(files)):
                left = max_bytes - (self.bytes_read - before)
                if left <= 0:
                    break
                watched = files[self._turn % len(files)]
                if watched.present and watched.reason is None and watched.offset:
                    try:
                        same = watched.verify_old(left)
                    except OSError:
                        same = True  # what cannot be read now is the next poll's to tell
                    if not same:
                        watched.distrust()
                    elif watched.verify_at:
                        continue
                self._turn = (self._turn + 1) % len(files)
            return self.bytes_read - before

    def save(self) -> bool:
        """Write the index, if there is a place for it and anything changed. False, with
        `index_error`, when it could not be written: that costs the next start time and nothing else."""
        with self._lock:
            versions = tuple(memory.version for memory in self._order)
            if self.index_path is None or not versions or versions == self._saved:
                return True
            if not self._write_index(self._order):
                return False
            self._saved = versions
            return True

    def _write_index(self, memories: Sequence[DatasetMemory]) -> bool:
        assert self.index_path is not None
        try:
            save_index(self.index_path, self._key, memories)
        except OSError as error:
            self.index_error = f"the scan's index cannot be written: {error.strerror}"
            return False
        self.index_error = None
        return True

    def _remember(self) -> None:
        """At the first poll: what the index holds."""
        if self._loaded or self.index_path is None:
            return
        self._loaded = True
        self._memories, self.index_error = load_index(self.index_path, self._key, self._memory)

    def _memory(self, folder: str) -> DatasetMemory:
        return DatasetMemory(self._path, folder, self.rules)

    def _list_root(self) -> None:
        try:
            status = os.stat(self._path)
            if not stat.S_ISDIR(status.st_mode):
                raise NotADirectoryError
            stamp = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
            if stamp == self._root_stamp:
                return
            names = folder_names(self._path)
            # A folder made within the same tick of the file system's clock would not show later.
            self._root_stamp = None if is_racy(status.st_ctime_ns, time.time_ns()) else stamp
        except (FileNotFoundError, NotADirectoryError):
            raise OperatorError(
                "no-root",
                f"there is no folder {clean(self.root)} on {clean(os.uname().nodename, 80)}"
                + (f"; {there}" if (there := nearby(Path(self._path))) else ""),
                "check --root, and that the data volume is mounted",
            ) from None
        except OSError as error:
            raise OperatorError(
                "root-unreadable",
                f"{clean(self.root)} cannot be read: {error.strerror}",
                "check its owner and permissions",
            ) from error
        for name in names | set(DECLARED):
            if name not in self._memories:
                self._memories[name] = self._memory(name)
        for name, memory in self._memories.items():
            if memory.exists != (name in names):
                memory.exists = name in names
                memory.scan = None
        others = sorted(name for name in self._memories if name not in DECLARED)
        self._order = tuple(self._memories[name] for name in (*DECLARED, *others))


def _is_shown(scan: DatasetScan) -> bool:
    """A declared dataset always; another folder when it holds one of the three files."""
    return scan.folder in DECLARED or any(facts.present for facts in scan.files)
