"""Where everything lies on the container, and how a file there is replaced whole.

The folder names and file names are the contract of the pipeline: see docs/files.md.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remote.errors import OperatorError
from remote.text import clean

PROMPTS = "prompts.jsonl"
RESPONSES = "raw_responses.jsonl"
TOKENIZED = "tokenized_data.jsonl"
TOKENIZED_META = "tokenized_data.meta.json"
STATE_FOLDER = ".eagle3"

DECLARED: dict[str, tuple[str, str]] = {
    "B1_glaive": ("B1", "Glaive"),
    "B2_opencodeinstruct": ("B2", "OpenCodeInstruct"),
    "B3_magicoder": ("B3", "Magicoder"),
    "B4_mixturethoughts": ("B4", "MixtureThoughts"),
    "B5_openthoughts": ("B5", "OpenThoughts"),
    "B6_ultrachat": ("B6", "UltraChat"),
    "B7_sharegpt": ("B7", "ShareGPT"),
    "B8_sweagent": ("B8", "SWE-agent"),
}
"""Folder name to (id, title) of the eight datasets that are prompt datasets by declaration."""


def dataset_id(folder: str) -> str:
    """The id of a dataset: its folder's name before the first `_` (`B1_glaive` is `B1`)."""
    return folder.split("_", 1)[0]


def dataset_title(folder: str) -> str:
    """The name an operator reads: the declared title, else the folder's part after `_`."""
    declared = DECLARED.get(folder)
    return declared[1] if declared else folder.split("_", 1)[-1]


def _state_file(name: str) -> Any:
    return property(lambda self: self.state / name, doc=f"`.eagle3/{name}`")


@dataclass(frozen=True)
class Layout:
    """The paths under one root. Making one touches nothing on disk."""

    root: Path

    @property
    def state(self) -> Path:
        """`<root>/.eagle3`, made only when something is launched or changed."""
        return self.root / STATE_FOLDER

    run_json = _state_file("run.json")
    run_lock = _state_file("run.lock")
    exit_json = _state_file("exit.json")
    stop_json = _state_file("stop.json")
    progress_json = _state_file("progress.json")
    control_json = _state_file("control.json")
    run_log = _state_file("run.log")
    runs_jsonl = _state_file("runs.jsonl")
    answers = _state_file("answers")
    inflight_log = _state_file("inflight.log")
    failed_jsonl = _state_file("failed.jsonl")
    torn = _state_file("torn")
    previous = _state_file("previous")
    index_json = _state_file("index.json")
    history_jsonl = _state_file("history.jsonl")
    audit_jsonl = _state_file("audit.jsonl")
    hold_json = _state_file("hold.json")
    acks_json = _state_file("acks.json")

    def folder(self, name: str) -> Path:
        """The folder of one dataset."""
        return self.root / name

    def answers_of(self, name: str) -> Path:
        """The provenance sidecar of one dataset: a line per answer."""
        return self.state / "answers" / f"{name}.jsonl"

    def check_root(self) -> None:
        """Raises OperatorError `no-root` where there is no such folder."""
        if not self.root.is_dir():
            raise OperatorError(
                "no-root", f"there is no folder {clean(self.root)}", "check --root, or whether the volume is mounted"
            )

    def make_state(self) -> Path:
        """Make `.eagle3` (private to its owner's umask) and return it. Raises OSError."""
        self.state.mkdir(exist_ok=True)
        return self.state


def folder_names(folder: Path | str) -> set[str]:
    """The names of the folders in a folder, links to folders among them; hidden ones are none of ours.

    What cannot be looked at (a link that leads to itself, a dead mount) is taken for one: whoever opens it says what
    is wrong with it, and the others are not lost for its sake. Raises OSError when `folder` itself cannot be listed.
    """
    with os.scandir(folder) as entries:
        return {entry.name for entry in entries if not entry.name.startswith(".") and _may_be_folder(entry)}


def _may_be_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return True


def fsync_folder(folder: Path) -> None:
    """Make a rename or a new name in `folder` durable. Raises OSError."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_whole(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Replace a whole file durably: write beside, fsync, rename, fsync the folder.

    A reader sees the old bytes or the new ones, never a mixture. Raises OSError and leaves
    the old file as it was.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
        os.close(fd)
        fd = -1
        os.replace(beside, path)
    except BaseException:
        if fd >= 0:
            os.close(fd)
        beside.unlink(missing_ok=True)
        raise
    fsync_folder(path.parent)
