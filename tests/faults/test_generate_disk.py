"""A disk that fills under a run: it stops with one clear line and its own exit code, and goes on when there is room."""

from __future__ import annotations

from pathlib import Path

from remote.exitcodes import ExitCode
from tests.support.disks import tiny_disk
from tests.support.engine import stand_in, wait_until
from tests.support.generating import answered_once, make_options, make_root, meanwhile, records, run_here, state_lines

B4 = "B4_mixturethoughts"


def fill(disk: Path) -> Path:
    """Take all the room there is."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as out:
        try:
            while out.write(bytes(4096)):
                continue
        except OSError:
            return filler
    return filler


def test_a_full_disk_stops_the_run_and_loses_nothing(tmp_path: Path) -> None:
    with tiny_disk("2m") as disk, stand_in(request_tokens_s=500) as engine:
        root = make_root(disk / "root", {B4: 60})
        kept: list[int] = []

        def fill_up() -> None:
            wait_until("answers", lambda: len(records(root, B4)) >= 8)
            kept.append(len(records(root, B4)))
            fill(disk)

        with meanwhile(fill_up):
            ran = run_here(make_options(root, engine.url), run_id="full")
        assert ran.code == ExitCode.DISK, ran.log
        assert ran.error is not None and "space" in str(ran.error)
        assert engine.seen()["running"] == [], "what was in flight was aborted"
        (disk / "filler").unlink()
        assert len(answered_once(root, B4)) >= kept[0]
        again = run_here(make_options(root, engine.url), run_id="again")
        assert again.code == ExitCode.DONE, again.log
        assert len(answered_once(root, B4)) == 60
        assert not state_lines(root, "failed.jsonl")


def test_a_full_disk_at_the_start_is_told_in_one_line(tmp_path: Path) -> None:
    with tiny_disk("256k") as disk, stand_in() as engine:
        root = make_root(disk / "root", {B4: 5})
        fill(disk)
        ran = run_here(make_options(root, engine.url))
        assert ran.code == ExitCode.DISK
        assert engine.seen()["requests"] == 0
