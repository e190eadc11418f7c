"""The first look at a full tree takes a while: it says how far it is, and one that is cut off was not for nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.alert_link import READING
from remote import rounds, scan
from remote.dataset_memory import DatasetMemory
from remote.dataset_scan import DatasetScan
from remote.options import Options
from remote.records import Rules
from remote.rounds import Rounds
from remote.scan import Scanner, scan_root
from tests.support.tree import make_tree


def test_a_look_that_is_cut_off_keeps_the_datasets_it_has_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, index = make_tree(tmp_path / "root", "end"), tmp_path / "index.json"
    monkeypatch.setattr(scan, "KEEP_AFTER_S", -1.0)
    look = DatasetMemory.look

    def cut_off(memory: DatasetMemory, now_s: float) -> DatasetScan:
        if memory.folder == "B4_mixturethoughts":
            raise KeyboardInterrupt
        return look(memory, now_s)

    with monkeypatch.context() as patch:
        patch.setattr(DatasetMemory, "look", cut_off)
        with pytest.raises(KeyboardInterrupt):
            Scanner(root, Rules(), index).poll()
    again = Scanner(root, Rules(), index)
    found = again.poll()
    unread = [root / name for name in ("B1_glaive", "B2_opencodeinstruct", "B3_magicoder")]
    spared = sum(path.stat().st_size for folder in unread for path in folder.iterdir())
    whole = Scanner(root, Rules())
    assert [row.tokens for row in found.datasets] == [row.tokens for row in whole.poll().datasets]
    assert again.bytes_read <= whole.bytes_read - spared + 64_000


def test_it_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_tree(tmp_path / "root", "end")
    looks = Rounds(Options(root=str(root)), {}, lambda: None, lambda: None)
    assert not any("first time" in problem for problem in looks.snapshot().get("problems", []))
    monkeypatch.setattr(rounds, "FIRST_LOOK_S", 0.0)
    said: list[str] = []
    look = DatasetMemory.look

    def spied(memory: DatasetMemory, now_s: float) -> DatasetScan:
        said.extend(looks.snapshot()["problems"])
        return look(memory, now_s)

    monkeypatch.setattr(DatasetMemory, "look", spied)
    looks._look_at_data()
    assert said[0].startswith(f"{READING}, 0 % of"), "the words that the alert knows"
    shares = [int(sentence.split("time, ")[1].split(" %")[0]) for sentence in said]
    assert shares == sorted(shares) and shares[-1] >= 50
    assert scan_root(root, Rules()).datasets
