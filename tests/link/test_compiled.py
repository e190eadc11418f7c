"""The zip compiled for the container's Python: kept beside the zip, trusted no further, and of no effect but speed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from console.bootstrap import SHELL_ARGV, start_agent
from console.local import LocalChannel
from console.pipe import AgentPipe
from console.ship import Package, package
from remote import stage0
from tests.link.test_storage import start_in
from tests.support.needs import needs_root
from tests.support.tree import make_tree

PYTHONS = sorted(Path.home().glob(".pyenv/versions/3.1[0-9]*/bin/python"))


async def start(shipped: Package, home: Path, python: str = sys.executable) -> AgentPipe:
    """The bootstrap with its cache under `home`."""
    channel = await LocalChannel.start(SHELL_ARGV, {"PATH": "/usr/bin:/bin", "HOME": str(home)})
    try:
        return await start_agent(channel, shipped, python=python)
    except BaseException:
        await channel.close()
        raise


async def run_from(shipped: Package, home: Path, python: str = sys.executable) -> Path:
    """Start it once, hear an echo from a module that is imported late, and end it; the file that it ran from."""
    pipe = await start(shipped, home, python)
    await pipe.write(b"hello\n")
    assert await pipe.read_line() == b"echo hello"
    await pipe.close()
    return Path(pipe.ready["argv"][0])


def kept(home: Path) -> set[str]:
    """The names in the cache folder."""
    return set(os.listdir(home / ".cache" / stage0.FOLDER))


async def test_it_is_made_once_private_and_used_again(shipped: Package, tmp_path: Path) -> None:
    first = await run_from(shipped, tmp_path)
    assert kept(tmp_path) == {shipped.name, first.name} and first.name != shipped.name
    assert stat.S_IMODE(first.stat().st_mode) == 0o600
    made = first.stat()
    assert await run_from(shipped, tmp_path) == first
    assert first.stat().st_ino == made.st_ino, "it was not made again"


async def test_it_runs_without_compiling_a_source(shipped: Package, tmp_path: Path) -> None:
    compiled = await run_from(shipped, tmp_path)
    # A source that is not what was compiled would show, were it read.
    shipped_zip = compiled.with_name(shipped.name)
    shipped_zip.write_bytes(b"not the program")
    done = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-B", compiled, "agent", "--marker", "m",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await asyncio.wait_for(done.communicate(b"hello\n"), 30)
    assert b"\nm ready " in out and out.endswith(b"echo hello\n")


@pytest.mark.parametrize("damage", ["flip", "short", "empty", "open to others", "link", "folder"])
async def test_one_that_is_not_as_it_was_made_is_not_run(damage: str, shipped: Package, tmp_path: Path) -> None:
    compiled = await run_from(shipped, tmp_path)
    good = compiled.read_bytes()
    if damage == "flip":
        compiled.write_bytes(good[: len(good) // 2] + bytes([good[len(good) // 2] ^ 1]) + good[len(good) // 2 + 1 :])
    elif damage == "short":
        compiled.write_bytes(good[:-100])
    elif damage == "empty":
        compiled.write_bytes(b"")
    elif damage == "open to others":
        compiled.chmod(0o666)
    else:
        compiled.unlink()
        compiled.mkdir() if damage == "folder" else compiled.symlink_to(shutil.copy(__file__, tmp_path))
    ran = await run_from(shipped, tmp_path)
    if damage == "folder":
        assert ran.name == shipped.name, "what cannot be replaced is gone round"
        return
    assert ran == compiled and not ran.is_symlink()
    assert stat.S_IMODE(ran.stat().st_mode) == 0o600
    data = ran.read_bytes()
    assert hashlib.sha256(data[:-64]).hexdigest().encode() == data[-64:]


async def test_one_that_somebody_else_made_is_not_run(shipped: Package, tmp_path: Path) -> None:
    needs_root("chown")
    compiled = await run_from(shipped, tmp_path)
    os.chown(compiled, 1, 1)
    assert await run_from(shipped, tmp_path) == compiled
    assert compiled.stat().st_uid == os.getuid()


async def test_where_there_is_no_room_for_it_the_zip_runs(shipped: Package, tmp_path: Path) -> None:
    # Four names: the folder, .cache, ours, and the zip.
    pipe = await start_in(f"mount -t tmpfs -o nr_inodes=4 none {tmp_path}", shipped, HOME=str(tmp_path))
    assert pipe.ready["argv"][0] == pipe.place
    await pipe.close()


async def test_every_python_has_its_own(shipped: Package, tmp_path: Path) -> None:
    if len(PYTHONS) < 2:
        pytest.skip("two Pythons are needed")
    ran = {await run_from(shipped, tmp_path, str(python)) for python in PYTHONS}
    assert len(ran) == len(PYTHONS)
    # Each finds its own again, whatever the others left.
    assert {await run_from(shipped, tmp_path, str(python)) for python in PYTHONS} == ran


async def test_many_at_once_all_start(shipped: Package, tmp_path: Path) -> None:
    ran = await asyncio.gather(*(run_from(shipped, tmp_path) for _ in range(6)))
    assert len(set(ran)) == 1
    assert kept(tmp_path) == {shipped.name, ran[0].name}, "nothing half-written is left"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The real program: the zip, and what it is compiled to."""
    place = tmp_path_factory.mktemp("both")
    stored = place / package().name
    stored.write_bytes(package().data)
    compiled = Path(stage0.compiled(str(stored), os.getuid()))
    assert compiled != stored
    return stored, compiled


def said(*words: object) -> str:
    """What a command prints."""
    command = [sys.executable, "-I", "-B", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_it_says_what_the_zip_says(both: tuple[Path, Path], tmp_path: Path) -> None:
    make_tree(tmp_path)
    versions, scans, helps = (
        [said(program, *words) for program in both]
        for words in (("version", "--json"), ("scan", "--root", tmp_path, "--json"), ("generate", "--help"))
    )
    assert versions[0] == versions[1] and json.loads(versions[0])["release"] == package().release
    assert helps[0] == helps[1]
    first, second = ({**json.loads(text), "at": None} for text in scans)
    assert first == second and len(first["datasets"]) == 8


def test_what_it_launches_runs_from_the_zip(both: tuple[Path, Path], tmp_path: Path) -> None:
    """A launched process may run for days, and under another Python: it gets the sources."""
    stored, compiled = both
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from remote import probe_python, release\n"
        "assert release.__file__.endswith('.pyc'), release.__file__\n"
        "print(release.durable_archive(Path(sys.argv[2])), probe_python.code_path(), release.release())"
    )
    durable, path, release = said("-c", code, compiled, tmp_path / "program").split()
    assert Path(durable).read_bytes() == stored.read_bytes()
    assert (path, release) == (str(stored), package().release)
