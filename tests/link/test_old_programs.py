"""What earlier releases left in the cache over there: removed when it is old and nobody's, and never from under anybody."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

import pytest

from console.ship import Package
from remote import stage0
from remote.old_programs import LEFT_OVER_S, UNUSED_S, remove_from
from tests.link.test_compiled import kept, run_from, start
from tests.link.test_storage import start_in
from tests.support.needs import needs_root
from tests.support.new_release import new_release
from tests.support.sshd import wait_until_gone

OWN = "0" * 12
OLD_S = UNUSED_S + 60.0


def put(folder: Path, name: str, age_s: float) -> Path:
    """A file that was last used so long ago."""
    path = folder / name
    path.write_bytes(b"x")
    made_older(path, age_s)
    return path


def made_older(path: Path, age_s: float) -> None:
    at = time.time() - age_s
    os.utime(path, (at, at))


def is_held(path: Path) -> bool:
    """Whether somebody has a lock on it."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache folder as stage 0 makes it."""
    folder = tmp_path / ".cache" / stage0.FOLDER
    folder.mkdir(parents=True, mode=0o700)
    return folder


def test_only_old_releases_of_our_naming_go(cache: Path) -> None:
    gone = [
        put(cache, f"eagle3-remote-{'a' * 12}.pyz", OLD_S),
        put(cache, f"eagle3-remote-{'a' * 12}.cpython-310-6f0d0d0a.pyz", OLD_S),
        put(cache, f"eagle3-remote-{'b' * 12}.cpython-310-6f0d0d0a.pyz", OLD_S),
        put(cache, ".arriving-abc_1234", LEFT_OVER_S + 60.0),
    ]
    stays = [
        put(cache, f"eagle3-remote-{OWN}.pyz", OLD_S),
        put(cache, f"eagle3-remote-{OWN}.cpython-311-a70d0d0a.pyz", OLD_S),
        put(cache, f"eagle3-remote-{'c' * 12}.pyz", UNUSED_S - 60.0),
        # Compiled long ago for a zip that was started yesterday.
        put(cache, f"eagle3-remote-{'c' * 12}.cpython-310-6f0d0d0a.pyz", OLD_S),
        put(cache, ".arriving-abc_5678", LEFT_OVER_S - 60.0),
        put(cache, f"eagle3-remote-{'d' * 12}.pyz.kept", OLD_S),
        put(cache, f"eagle3-remote-{'D' * 12}.pyz", OLD_S),
        put(cache, "index-1234.json", OLD_S),
        put(cache, "prompts.jsonl", OLD_S),
    ]
    folder = cache / f"eagle3-remote-{'e' * 12}.pyz"
    folder.mkdir()
    link = cache / f"eagle3-remote-{'f' * 12}.pyz"
    link.symlink_to(stays[-1])
    assert sorted(remove_from(cache, OWN, time.time())) == sorted(path.name for path in gone)
    assert all(path.exists() for path in [*stays, folder]) and link.is_symlink()
    assert remove_from(cache, OWN, time.time()) == []


def test_what_is_anothers_stays(cache: Path) -> None:
    needs_root("chown")
    theirs = put(cache, f"eagle3-remote-{'a' * 12}.pyz", OLD_S)
    os.chown(theirs, 65534, -1)
    ours = put(cache, f"eagle3-remote-{'b' * 12}.pyz", OLD_S)
    cache.chmod(0o777)
    assert remove_from(cache, OWN, time.time()) == [], "nor anything in a folder where others may write"
    cache.chmod(0o700)
    assert remove_from(cache, OWN, time.time()) == [ours.name] and theirs.exists()


async def test_a_release_in_use_stays_until_its_helper_ends(shipped: Package, tmp_path: Path, cache: Path) -> None:
    pipe = await start(shipped, tmp_path)
    for name in kept(tmp_path):
        made_older(cache / name, OLD_S)
    # Its command line aside, which is looked at too: here it is the lock that counts, as beyond a pid namespace.
    assert pipe.place is not None
    assert is_held(Path(pipe.place))
    assert remove_from(cache, OWN, time.time()) == []
    await pipe.write(b"hello\n")
    assert await pipe.read_line() == b"echo hello"
    await pipe.close()
    await asyncio.to_thread(wait_until_gone, pipe.ready["pid"])
    assert len(remove_from(cache, OWN, time.time())) == 2 and kept(tmp_path) == set()


def test_what_was_started_without_a_lock_is_found_by_its_command_line(cache: Path) -> None:
    path = put(cache, f"eagle3-remote-{secrets.token_hex(6)}.pyz", OLD_S)
    words = [sys.executable, "-c", "import sys; print(); sys.stdout.flush(); sys.stdin.read()", str(path), "agent"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        assert remove_from(cache, OWN, time.time()) == []
        process.communicate()
    assert remove_from(cache, OWN, time.time()) == [path.name]


async def test_each_start_counts_as_use(shipped: Package, tmp_path: Path, cache: Path) -> None:
    await run_from(shipped, tmp_path)
    for name in kept(tmp_path):
        made_older(cache / name, OLD_S)
    await run_from(shipped, tmp_path)
    assert remove_from(cache, OWN, time.time()) == []


async def test_one_that_is_just_being_removed_is_sent_again(shipped: Package, tmp_path: Path, cache: Path) -> None:
    await run_from(shipped, tmp_path)
    with (cache / shipped.name).open("rb") as removing:
        fcntl.flock(removing, fcntl.LOCK_EX)
        pipe = await start(shipped, tmp_path)
        assert pipe.sent
        (cache / shipped.name).unlink()
    await pipe.write(b"hello\n")
    assert await pipe.read_line() == b"echo hello", "it runs from its own by now"
    await pipe.close()


async def test_a_place_that_became_read_only_is_started_from(shipped: Package, tmp_path: Path) -> None:
    await run_from(shipped, tmp_path)
    frozen = f"mount --bind {tmp_path} {tmp_path} && mount -o remount,ro,bind {tmp_path}"
    pipe = await start_in(frozen, shipped, HOME=str(tmp_path))
    assert not pipe.sent
    await pipe.close()


async def test_a_new_release_clears_away_after_the_old_ones(tmp_path: Path, cache: Path) -> None:
    # Names of this run alone: the command lines of the whole machine are looked at.
    old = [put(cache, f"eagle3-remote-{secrets.token_hex(6)}.pyz", OLD_S) for _ in range(2)]
    pipe = await start(new_release(), tmp_path)
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "hello",
        "params": {"options": {"root": str(tmp_path)}, "release": "x"},
    }
    await pipe.write(json.dumps(hello).encode() + b"\n")
    async with asyncio.timeout(30):
        while any(path.exists() for path in old):
            await pipe.read_line()
    assert pipe.place is not None and Path(pipe.place).exists()
    await pipe.close()
