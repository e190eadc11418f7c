"""Things that happen to a data tree while it is watched, as hypothesis strategies."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from remote.dataset_scan import DatasetScan
from remote.layout import PROMPTS, RESPONSES, TOKENIZED
from remote.scan import RootScan
from tests.support.tree import line, prompt, response, row

FOLDERS = ("B1_glaive", "A1_math")
FILES = (PROMPTS, RESPONSES, TOKENIZED)
IDS = [*(f"s{number}" for number in range(6)), 7, "7", "日本"]

Event = Callable[[Path], None]


def comparable(scan: RootScan) -> dict[str, Any]:
    """Everything that a scan says but for what only a memory can know (versions, growth)."""
    return {dataset.folder: _comparable(dataset) for dataset in scan.datasets}


def _comparable(dataset: DatasetScan) -> tuple[Any, ...]:
    files = tuple(replace(facts, growing_since=None) for facts in dataset.files)
    return (
        replace(dataset, version=0, growing_since=None, files=files),
        dataset.prompt_keys(),
        sorted(dataset.answered_ids()),
        dataset.answer_lengths(),
        sorted(dataset.tokenized_ids()),
        dataset.untokenized_ids(),
    )


def _prompt_line(one: Any, how: int) -> bytes:
    value = prompt(one, "t" * (3000 if how == 3 else 5))
    if how == 1:
        value["messages"].append({"role": "assistant", "content": "mine"})
    if how == 2:
        value["prompt"] = "two forms"
    return line(value)


def _response_line(one: Any, how: int) -> bytes:
    answer = response(one, 900 if how == 3 else 4)
    if how == 1:
        answer["finish_reason"] = {"type": "length"}
    if how == 2:
        answer["output_ids"] = "AAEC"
    return line(answer)


def _row_line(one: Any, how: int) -> bytes:
    value = row(response(one, 900 if how == 3 else 4))
    if how == 1:
        value["loss_mask"][-1] = 2
    if how == 2:
        value["loss_mask"].pop()
    return line(value)


_junk = st.sampled_from(
    [b"\n", b"\r\n", b"{}\n", b"\xef\xbb\xbf\n", b"not json\n", b'{"sample_id":"s1","sample_id":"s2"}\n', b"\xff\n"]
)
_one_line = st.builds(
    lambda make, one, how: make(one, how),
    st.sampled_from([_prompt_line, _response_line, _row_line]),
    st.sampled_from(IDS),
    st.sampled_from([0, 0, 0, 1, 2, 3]),
)


def lines_for(name: str) -> st.SearchStrategy[bytes]:
    """A few lines that fit the file, now and then with some that do not."""
    make = {PROMPTS: _prompt_line, RESPONSES: _response_line, TOKENIZED: _row_line}[name]
    fitting = st.builds(make, st.sampled_from(IDS), st.sampled_from([0, 0, 0, 1, 2, 3]))
    return st.lists(st.one_of(fitting, fitting, fitting, _junk, _one_line), min_size=1, max_size=4).map(b"".join)


def _write(path: Path, data: bytes, flags: int) -> None:
    if path.is_dir():
        path.rmdir()
    path.parent.mkdir(exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o644)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def _append(path: Path, data: bytes) -> None:
    _write(path, data, os.O_APPEND)


def _append_torn(path: Path, data: bytes, cut: int) -> None:
    _write(path, data[: max(1, len(data) - cut)], os.O_APPEND)


def _rewrite(path: Path, data: bytes) -> None:
    _write(path, data, os.O_TRUNC)


def _prepend(path: Path, data: bytes) -> None:
    """Written anew in place, longer and with another beginning."""
    _rewrite(path, data + (path.read_bytes() if path.is_file() else b""))


def _replace(path: Path, data: bytes) -> None:
    beside = path.with_name("beside.tmp")
    _write(beside, data, os.O_TRUNC)
    if path.is_dir():
        path.rmdir()
    os.replace(beside, path)


def _edit(path: Path, where: int, put_back: bool) -> None:
    """One byte changed in place, same size; the modification time perhaps put back."""
    if not path.is_file() or not path.stat().st_size:
        return
    status = path.stat()
    fd = os.open(path, os.O_RDWR)
    try:
        at = where % status.st_size
        old = os.pread(fd, 1, at)
        os.pwrite(fd, b"1" if old != b"1" else b"2", at)
    finally:
        os.close(fd)
    if put_back:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _edit_and_append(path: Path, where: int, data: bytes) -> None:
    """What no look at sizes, times and ends can find: that is the background pass's."""
    _edit(path, where, False)
    _append(path, data)


def _truncate(path: Path, where: int) -> None:
    if path.is_file():
        os.truncate(path, where % (path.stat().st_size + 1))


def _cut_tail(path: Path) -> None:
    """As the journal does: the half line at the end goes."""
    if path.is_file():
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)


def _touch(path: Path) -> None:
    if path.exists():
        os.utime(path)


def _remove(path: Path) -> None:
    if path.is_file():
        path.unlink()


def _hide_and_show(path: Path) -> None:
    """Gone, or back as it was."""
    aside = path.with_name(f"{path.name}.aside")
    if path.is_file():
        os.replace(path, aside)
    elif aside.is_file() and not path.exists():
        os.replace(aside, path)


def _become_folder(path: Path) -> None:
    _remove(path)
    path.mkdir(parents=True, exist_ok=True)


def _folder_away(path: Path) -> None:
    aside = path.parent.parent / f".{path.parent.name}"
    if path.parent.is_dir():
        shutil.rmtree(aside, ignore_errors=True)
        os.replace(path.parent, aside)
    elif aside.is_dir():
        os.replace(aside, path.parent)


def _on(path_of: tuple[str, str], act: Callable[..., None], *args: Any) -> tuple[str, Event]:
    folder, name = path_of
    words = " ".join(repr(arg)[:60] for arg in args)
    return f"{act.__name__} {folder}/{name} {words}", lambda root: act(root / folder / name, *args)


def _events_on(path_of: tuple[str, str]) -> st.SearchStrategy[tuple[str, Event]]:
    data = lines_for(path_of[1])
    where = st.integers(0, 40_000)

    def on(act: Callable[..., None], *args: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, Event]]:
        return st.builds(_on, st.just(path_of), st.just(act), *args)

    return st.one_of(
        on(_append, data),
        on(_append, data),
        on(_append_torn, data, st.integers(0, 60)),
        on(_rewrite, data),
        on(_prepend, data),
        on(_replace, data),
        on(_edit, where, st.booleans()),
        on(_edit_and_append, where, data),
        on(_truncate, where),
        on(_cut_tail),
        on(_touch),
        on(_remove),
        on(_hide_and_show),
        on(_become_folder),
        on(_folder_away),
    )


paths = st.tuples(st.sampled_from(FOLDERS), st.sampled_from((PROMPTS, RESPONSES, RESPONSES, TOKENIZED)))
events = paths.flatmap(_events_on)
