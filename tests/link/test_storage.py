"""Where the program is kept over there, whatever the homes, disks and rights; memory last."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from console import link
from console.bootstrap import SHELL_ARGV, start_agent
from console.link_errors import DigestWrong, LinkError, NoPython, NoRoom
from console.local import LocalChannel
from console.pipe import AgentPipe
from console.ship import Package
from remote import stage0
from tests.link.conftest import Connect
from tests.support.needs import find, needs, needs_root, needs_shm
from tests.support.sshd import Server, throwaway_user, tool

HIDDEN = ("/dev/shm", "/tmp", "/var/tmp", "/run")


async def start_in(before: str, shipped: Package, **environment: str) -> AgentPipe:
    """The bootstrap under a shell that first ran `before` in a mount namespace of its own."""
    needs_root("mount namespaces")
    needs("unshare")
    words = [str(find("unshare")), "--mount", "/bin/sh", "-c", f'{before}\nexec "$@"', "sh", *SHELL_ARGV]
    channel = await LocalChannel.start(words, {"PATH": "/usr/bin:/bin:/usr/sbin", **environment})
    try:
        return await start_agent(channel, shipped)
    except BaseException:
        await channel.close()
        raise


async def test_it_is_kept_private_and_used_again(server: Server, connected: Connect) -> None:
    needs_root("useradd")
    with throwaway_user("/bin/bash", {".bashrc": "umask 0000\n"}) as user:
        async with connected(server.target(user.name)) as pipe:
            assert pipe.place is not None
            kept = Path(pipe.place)
            assert stat.S_IMODE(kept.stat().st_mode) == 0o600
            assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
        async with connected(server.target(user.name)) as pipe:
            assert not pipe.sent
        kept.write_bytes(kept.read_bytes()[:-1] + b"!")
        async with connected(server.target(user.name)) as pipe:
            assert pipe.sent, "a file that was changed is not run"


@pytest.mark.parametrize("umask", ["0077", "0777"])
async def test_a_strict_umask_locks_nobody_out(umask: str, server: Server, connected: Connect) -> None:
    needs_root("useradd")
    with throwaway_user("/bin/bash", {".bashrc": f"umask {umask}\n"}) as user:
        for sent in (True, False):
            async with connected(server.target(user.name)) as pipe:
                assert pipe.sent is sent


def test_the_folder_is_never_open_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even before its mode is set: `/tmp` is everybody's."""
    modes: list[int] = []
    chmod = os.chmod

    def watched(path: str, mode: int) -> None:
        modes.append(stat.S_IMODE(os.stat(path).st_mode))
        chmod(path, mode)

    monkeypatch.setattr(os, "chmod", watched)
    before = os.umask(0)
    try:
        stage0.store(str(tmp_path / "eagle3-console-1"), "a.pyz", b"x", os.getuid())
    finally:
        os.umask(before)
    assert modes == [0o700]


@pytest.mark.parametrize(
    "bashrc", ["unset HOME\n", "export HOME=\n", "export HOME=/nowhere/at/all\n", "export HOME=relative\n"]
)
async def test_a_home_that_is_not_there(bashrc: str, server: Server, connected: Connect) -> None:
    needs_root("useradd")
    needs_shm()
    with throwaway_user("/bin/bash", {".bashrc": bashrc}) as user:
        async with connected(server.target(user.name)) as pipe:
            assert pipe.place is not None and pipe.place.startswith("/dev/shm/eagle3-console-")
        shutil.rmtree(Path(pipe.place).parent)


async def test_a_home_that_cannot_be_written(server: Server, connected: Connect) -> None:
    needs_root("useradd")
    needs_shm()
    with throwaway_user("/bin/bash") as user:
        tool("chown", "root:", str(user.home))
        async with connected(server.target(user.name)) as pipe:
            assert pipe.place is not None and pipe.place.startswith("/dev/shm/")
        shutil.rmtree(Path(pipe.place).parent)


async def test_a_folder_that_somebody_else_made_is_not_used(server: Server, connected: Connect) -> None:
    needs_root("useradd")
    needs_shm()
    with throwaway_user("/bin/bash", {".bashrc": "unset HOME\n"}) as user:
        uid = user.home.stat().st_uid
        trap = Path(f"/dev/shm/eagle3-console-{uid}")
        trap.mkdir(mode=0o777)
        trap.chmod(0o777)
        try:
            async with connected(server.target(user.name)) as pipe:
                assert pipe.place is not None and pipe.place.startswith(f"/tmp/eagle3-console-{uid}")
            assert not list(trap.iterdir())
        finally:
            trap.rmdir()
            shutil.rmtree(f"/tmp/eagle3-console-{uid}", ignore_errors=True)


@pytest.mark.parametrize("mount", ["size=4k", "nr_inodes=1", "ro"])
async def test_a_home_that_is_full_or_read_only(mount: str, shipped: Package, tmp_path: Path) -> None:
    before = f"mount -t tmpfs -o {mount} none {tmp_path}; mount -t tmpfs none /dev/shm"
    if mount == "size=4k":
        before += f"; dd if=/dev/zero of={tmp_path}/full bs=4k 2>/dev/null"
    pipe = await start_in(before, shipped, HOME=str(tmp_path))
    assert pipe.place == f"/dev/shm/eagle3-console-{os.getuid()}/{shipped.name}"
    await pipe.close()


async def test_noexec_does_not_matter(shipped: Package, tmp_path: Path) -> None:
    pipe = await start_in(f"mount -t tmpfs -o noexec none {tmp_path}", shipped, HOME=str(tmp_path))
    assert pipe.place is not None and pipe.place.startswith(str(tmp_path))
    await pipe.close()


def nowhere(folders: Sequence[str]) -> str:
    """Shell words that make every place for the zip read-only."""
    return "; ".join(f"mount -t tmpfs -o ro none {folder}" for folder in folders)


async def test_with_no_place_at_all_it_runs_from_memory(shipped: Package, tmp_path: Path) -> None:
    pipe = await start_in(nowhere([*HIDDEN, str(tmp_path)]), shipped, HOME=str(tmp_path))
    assert pipe.place is None and pipe.sent
    await pipe.write(b"still imports lazily\n")
    assert await pipe.read_line() == b"echo still imports lazily"
    await pipe.close()


async def test_with_no_memory_either_everything_tried_is_named(shipped: Package, tmp_path: Path) -> None:
    before = f"{nowhere([*HIDDEN, str(tmp_path)])}; ulimit -f 0"
    with pytest.raises(NoRoom) as told:
        await start_in(before, shipped, HOME=str(tmp_path))
    for place in (*HIDDEN, str(tmp_path), "memory"):
        assert place in str(told.value)


@pytest.mark.parametrize("damage", ["flip", "other"])
async def test_what_arrives_damaged_is_not_run(damage: str, shipped: Package, tmp_path: Path) -> None:
    packed = bytearray(shipped.packed)
    if damage == "flip":
        packed[len(packed) // 2] ^= 1
        wrong = replace(shipped, packed=bytes(packed))
    else:
        wrong = replace(shipped, digest="0" * 64)
    channel = await LocalChannel.start(SHELL_ARGV, {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    with pytest.raises(DigestWrong):
        await start_agent(channel, wrong)
    await channel.close()
    assert not list(tmp_path.rglob("*.pyz"))


def replaced(by: Path, folder: Path) -> str:
    """Shell words that put another program in the place of every system Python."""
    pythons = sorted(
        {str(path.resolve()) for path in Path("/usr/bin").glob("python3*") if path.name[7:].replace(".", "").isdigit()}
    )
    return "; ".join(f"mount --bind {by} {python}" for python in pythons)


async def test_no_python_names_what_was_looked_for(shipped: Package, tmp_path: Path) -> None:
    with pytest.raises(NoPython) as told:
        await start_in(replaced(Path("/bin/false"), tmp_path), shipped, HOME=str(tmp_path))
    error = told.value
    assert error.code == "no-python" and error.permanent
    assert "/opt/conda/bin/python3" in str(error) and "--python" in str(error)


async def test_an_old_python_is_named_with_its_version(shipped: Package, tmp_path: Path) -> None:
    # Stands in for an old one, so that the test needs none: answers the question as Python 3.9 does.
    old = tmp_path / "old-python"
    old.write_text('#!/bin/sh\necho "(3, 9, 2)"\n')
    old.chmod(0o755)
    with pytest.raises(NoPython) as told:
        await start_in(replaced(old, tmp_path), shipped, HOME=str(tmp_path))
    assert told.value.code == "python-too-old"
    assert "python3 is 3.9.2" in str(told.value)


async def test_the_wished_python_is_used_where_it_starts_and_else_another(
    server: Server, connected: Connect, tmp_path: Path
) -> None:
    async with connected(server.target(), python="/usr/bin/python3") as pipe:
        assert pipe.ready["argv"]
    async with connected(server.target(), python="/no/such/python; echo hi") as pipe:
        assert pipe.python


async def test_a_python_from_a_home_path(server: Server, connected: Connect) -> None:
    needs_root("useradd")
    with throwaway_user("/bin/bash") as user:
        (user.home / "my venv").mkdir()
        (user.home / "my venv" / "python").symlink_to("/usr/bin/python3")
        async with connected(server.target(user.name), python="~/my venv/python") as pipe:
            await pipe.write(b"environ\n")
            await pipe.read_line()


async def test_a_path_that_is_no_path_is_refused(server: Server, shipped: Package) -> None:
    for wrong in ("-c", "a\nb", "\0"):
        with pytest.raises(Exception) as told:
            await link.connect(server.target(), shipped=shipped, python=wrong)
        assert getattr(told.value, "code", "") == "usage"


async def test_a_console_that_vanishes_leaves_no_stage0(shipped: Package, tmp_path: Path) -> None:
    channel = await LocalChannel.start(SHELL_ARGV, {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    task = asyncio.create_task(start_agent(channel, replace(shipped, packed=b"")))
    with pytest.raises(LinkError):
        await task
    await channel.close()
    assert await channel.ending() != "it closed its output"
