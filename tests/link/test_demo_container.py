"""The stand-in container is real processes behind a real SSH server, private, and gone when told."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from console import link
from console.demo import container
from console.demo import state as demo_state
from console.demo.state import DemoInfo
from console.link_errors import NotLetIn
from console.ship import Package
from remote.errors import OperatorError
from remote.identity import alive
from tests.link.conftest import Connect
from tests.support.needs import needs
from tests.support.new_release import new_release
from tests.support.sshd import keygen, wait_until_gone


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the demo of this module lies."""
    return tmp_path_factory.mktemp("state") / "demo"


@pytest.fixture(scope="module")
def demo(place: Path) -> Iterator[DemoInfo]:
    """A running demo."""
    needs("ssh")
    stages: list[str] = []
    info = container.start(place, speed=0.2, on_stage=stages.append)
    assert len(stages) >= 3
    yield info
    container.stop(place)


def test_it_is_one_demo_however_often_it_is_started(demo: DemoInfo, place: Path) -> None:
    assert container.start(place) == demo
    assert container.info(place) == demo
    assert set(demo.to_json()) == {
        "target", "identity", "known_hosts", "root", "engine_url", "model_path", "python", "token_budget",
    }  # fmt: skip


def test_its_parts_are_processes_that_outlive_the_console(demo: DemoInfo, place: Path) -> None:
    state = demo_state.read_state(place)
    assert state is not None
    for identity in (state.daemon, *state.started.values()):
        assert alive(identity)
        assert os.getsid(identity.pid) == identity.pid, "each leads a session of its own"
    argv = Path(f"/proc/{demo.pids['older_script']}/cmdline").read_bytes().split(b"\0")
    assert b"--max-samples" in argv and b"--token-budget" not in argv


def test_files_are_private_and_it_listens_on_loopback_alone(demo: DemoInfo, place: Path) -> None:
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    for path in (Path(demo.identity), place / "host_key", place / "state.json"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    port = demo.address.port
    assert port is not None
    listening = [
        line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if line.split()[3] == "0A"
    ]
    assert [entry for entry in listening if entry.endswith(f":{port:04X}")] == [f"0100007F:{port:04X}"]
    with socket.socket(socket.AF_INET6) as six:
        assert six.connect_ex(("::1", port)) != 0


async def test_the_real_program_answers_there(demo: DemoInfo, connected: Connect) -> None:
    pipe = await link.connect(demo.address, python=demo.python, shipped=new_release())
    assert pipe.place is not None and "/container/root/" in pipe.place
    assert os.readlink(f"/proc/{pipe.ready['pid']}/cwd").endswith("/container/root")
    await pipe.close()
    await asyncio.to_thread(wait_until_gone, pipe.ready["pid"])


async def test_only_its_own_key_opens_it(demo: DemoInfo, shipped: Package, tmp_path: Path) -> None:
    with pytest.raises(NotLetIn):
        await link.connect(replace(demo.address, identities=(str(keygen(tmp_path / "mine")),)), shipped=shipped)


async def test_a_big_answer_and_the_exit_status_arrive_whole(demo: DemoInfo, connected: Connect) -> None:
    async with connected(demo.address) as pipe:
        await pipe.write(b"flood 5000\n")
        for _ in range(5000):
            assert await pipe.read_line() == b"x" * 999
        await pipe.write(b"exit 7\n")
        with pytest.raises(OperatorError) as told:
            await pipe.read_line()
        assert "exit status 7" in str(told.value)


def test_an_options_text_is_what_the_command_line_takes(
    demo: DemoInfo, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from console.settings import load_settings

    monkeypatch.setattr(demo_state, "default_folder", lambda: place)
    settings = load_settings("demo", {}, {})
    assert settings.options.root == demo.root
    assert settings.options.token_budget.default == demo.token_budget
    assert settings.sources["root"] == "profile demo"
    assert load_settings("demo", {"root": "/other"}, {}).options.root == "/other"


async def test_stopping_ends_what_was_launched_through_it_and_nothing_else(tmp_path: Path, connected: Connect) -> None:
    place = tmp_path / "demo"
    info = await asyncio.to_thread(container.start, place, bare=True)
    # A process of its own session, as a launched generator is; and one of ours with the same command line.
    innocent = await asyncio.create_subprocess_exec("sleep", "1234")
    async with connected(info.address) as pipe:
        await pipe.write(b"environ\n")
        assert demo_state.MARK_VARIABLE.encode() in await pipe.read_line()
        launched = await _launch(info)
    state = demo_state.read_state(place)
    assert state is not None
    assert await asyncio.to_thread(container.stop, place)
    assert not any(alive(one) for one in (state.daemon, *state.started.values()))
    await asyncio.to_thread(wait_until_gone, launched)
    assert innocent.returncode is None
    assert not place.exists()
    assert container.info(place) is None
    assert not container.stop(place), "nothing to stop is no fault"
    innocent.kill()
    await innocent.wait()


async def _launch(info: DemoInfo) -> int:
    """Start a detached process on the demo's container with plain ssh; its pid."""
    target = info.address
    ssh = await asyncio.create_subprocess_exec(
        *("ssh", "-F", "/dev/null", "-i", info.identity, "-o", f"UserKnownHostsFile={info.known_hosts}"),
        *("-p", str(target.port), f"root@{target.host}", "setsid sleep 1234 >/dev/null 2>&1 </dev/null & echo $!"),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await asyncio.wait_for(ssh.communicate(), 20)
    return int(out)


def test_an_unused_demo_ends_by_itself(tmp_path: Path) -> None:
    place = tmp_path / "demo"
    info = container.start(place, unused_s=0.5, bare=True)
    wait_until_gone(info.pids["container"])
    wait_until_gone(info.pids["engine"])
    assert not place.exists()


def test_a_killed_demo_is_cleaned_up_by_the_next_start(tmp_path: Path) -> None:
    place = tmp_path / "demo"
    first = container.start(place, bare=True)
    os.kill(first.pids["container"], signal.SIGKILL)
    wait_until_gone(first.pids["container"])
    assert container.info(place) is None
    second = container.start(place, bare=True)
    wait_until_gone(first.pids["engine"])
    assert second.pids["engine"] != first.pids["engine"]
    third = container.start(place, bare=True, reset=True)
    assert third.target != second.target or third.pids != second.pids
    container.stop(place)


def test_two_consoles_at_once_start_one_demo(tmp_path: Path) -> None:
    place = tmp_path / "demo"
    with ThreadPoolExecutor() as pool:
        one, two = pool.map(lambda _: container.start(place, bare=True), range(2))
    assert one == two
    container.stop(place)


def test_a_folder_that_is_not_the_demos_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("irreplaceable")
    with pytest.raises(OperatorError) as told:
        container.start(tmp_path)
    assert told.value.code == "demo-folder"
    assert not container.stop(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "irreplaceable"
