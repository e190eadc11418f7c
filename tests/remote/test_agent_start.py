"""The agent says ready before it has imported what only later requests need, and has all of it soon after."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from console.ship import package
from remote.agent import CHANGING, LOOKING
from remote.options import Options
from remote.outbox import Outbox
from remote.publisher import Publisher
from remote.rounds import Rounds
from tests.support.agent import LIMIT_S
from tests.support.tree import make_tree


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """The archive as it lies on a container."""
    archive = tmp_path / package().name
    archive.write_bytes(package().data)
    return archive


def test_methods_come_after_the_first_snapshot_and_stay_when_the_archive_goes(stored: Path) -> None:
    code = (
        "import os, sys\n"
        "archive, looking, changing = sys.argv[1], sys.argv[2].split(), sys.argv[3].split()\n"
        "sys.path.insert(0, archive)\n"
        "from remote import agent\n"
        "print(sorted({'remote.methods_look', 'remote.methods_act', 'remote.preflight', 'asyncio'} & set(sys.modules)))\n"
        "agent.import_methods()\n"
        "os.unlink(archive)\n"
        "look, act = sys.modules['remote.methods_look'], sys.modules['remote.methods_act']\n"
        "print([name for name in looking if not callable(getattr(look, name, None))])\n"
        "print([name for name in changing if not callable(getattr(act, name, None))])\n"
    )
    words = [sys.executable, "-I", "-B", "-c", code, str(stored), " ".join(LOOKING), " ".join(CHANGING)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.split("\n")[:3]) == (0, ["[]", "[]", "[]"]), done.stderr


def test_an_archive_that_went_too_early_does_not_end_the_agent(stored: Path) -> None:
    code = (
        "import os, sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from remote import agent\n"
        "os.unlink(sys.argv[1])\n"
        "agent.import_methods()\n"
        "print('goes on')\n"
    )
    words = [sys.executable, "-I", "-B", "-c", code, str(stored)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "goes on\n"), done.stderr


def test_what_comes_after_the_first_snapshot_comes_once_and_after_it() -> None:
    read_fd, write_fd = os.pipe()
    sent: list[dict[str, Any]] = []
    seen_at_the_time: list[int] = []
    came = threading.Event()

    def after_first() -> None:
        seen_at_the_time.append(len(sent))
        came.set()

    def make() -> dict[str, Any]:
        sent.append({"datasets": {"B1": {"tokens": len(sent)}}})
        return sent[-1]

    outbox = Outbox(write_fd, lambda why: None)
    publisher = Publisher(outbox, make, lambda: True, after_first)
    publisher.start()
    try:
        assert came.wait(LIMIT_S)
        # Two more updates: it is not called again for them.
        with os.fdopen(read_fd, "rb") as lines:
            kinds = [json.loads(next(lines))["method"] for _ in range(3)]
        assert kinds == ["snapshot", "patch", "patch"]
        assert len(seen_at_the_time) == 1 and seen_at_the_time[0] >= 1
    finally:
        publisher.stop()
        outbox.finish(1.0)


def test_the_table_does_not_wait_for_an_engine_that_is_silent(tmp_path: Path) -> None:
    make_tree(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        options = Options(root=str(tmp_path), engine_url=f"http://127.0.0.1:{silent.getsockname()[1]}", read_only=True)
        news = threading.Condition()

        def tell() -> None:
            with news:
                news.notify_all()

        rounds = Rounds(options, {}, lambda: None, tell)
        rounds.start()
        try:
            with news:
                assert news.wait_for(rounds.presentable, LIMIT_S)
            found = rounds.snapshot()
        finally:
            rounds.close()
    assert "engine health" in found["pending"]
    assert not {"datasets", "plan", "generator", "writers"} & set(found["pending"])
    assert len(found["datasets"]) == 8 and found["datasets"]["B1_glaive"]["inference"]["decision"]
