"""Roots to launch under, launches with the stand-in generator, and their certain end, by identity."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from remote.errors import OperatorError
from remote.identity import Identity, alive, identify, send, wait_gone
from remote.launch import Launched, Order, launch
from remote.layout import Layout
from remote.members import find_members
from remote.options import Options
from remote.runfile import read_run

REPO = Path(__file__).resolve().parents[2]
FAKE = REPO / "tests" / "support" / "fake_generator.py"
BY = "ann@laptop"
LIMIT_S = 30.0


def fake_command(*behaviour: str) -> tuple[str, ...]:
    """A command whose `generate` is the stand-in generator's."""
    return (sys.executable, str(FAKE), *behaviour)


def fake_python(folder: Path, *behaviour: str) -> Path:
    """A program to be given as `--python`: it runs the stand-in generator instead of the archive."""
    path = folder / "fake-python"
    words = " ".join(fake_command(*behaviour))
    path.write_text(f'#!/bin/sh\nshift 2\nexec {words} "$@"\n')
    path.chmod(0o755)
    return path


def launch_fake(
    layout: Layout, *behaviour: str, by: str = BY, handshake_s: float = LIMIT_S, **options: object
) -> Launched:
    """Launch the stand-in generator, as the agent would."""
    wanted = Options(root=str(layout.root), **options)  # type: ignore[arg-type]
    return launch(layout, Order(wanted, fake_command(*behaviour), by, {}, handshake_s))


def until(condition: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """Return once it holds; fails after `limit_s`. For states that nothing announces."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def supervisor_of(layout: Layout) -> Identity:
    """The supervisor of the last launch."""
    run = read_run(layout)
    assert run is not None and run.supervisor is not None
    return run.supervisor


def generator_of(layout: Layout) -> Identity:
    """The generator of the last launch."""
    run = read_run(layout)
    assert run is not None and run.generator is not None
    return run.generator


def kill_and_wait(identity: Identity) -> None:
    """SIGKILL to exactly this process, and its end."""
    send(identity, signal.SIGKILL)
    assert wait_gone([identity], LIMIT_S) == []


def end_all(layout: Layout) -> None:
    """Kill whatever a test left of its runs: supervisor first, so that nobody waits."""
    try:
        run = read_run(layout)
    except OperatorError:
        return
    if run is None:
        return
    if run.supervisor is not None:
        send(run.supervisor, signal.SIGKILL)
    members = find_members(run.run_id, run.generator)
    for member in members:
        send(member, signal.SIGKILL)
    wait_gone([one for one in [run.supervisor, *members] if one is not None], LIMIT_S)


@contextmanager
def process(*argv: str, ready: bool = False, **more: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the test's own, killed with its session at the end; `ready` waits for its first line."""
    child = subprocess.Popen(argv, start_new_session=True, stdout=subprocess.PIPE if ready else None, **more)  # type: ignore[call-overload]
    try:
        if ready:
            assert child.stdout.readline()
        yield child
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        if child.stdout is not None:
            child.stdout.close()


def identity_of(child: subprocess.Popen[bytes]) -> Identity:
    """Its identity; it must live."""
    found = identify(child.pid)
    assert found is not None and alive(found)
    return found
