"""Each way of leaving: the terminal is as it was, the exit code is true, the last line says what runs on."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.support.terminal import Terminal

SECRET = "sk-very-secret-0123456789"
RESTORED = (b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[?1000l", b"\x1b[?1003l", b"\x1b[?2004l")
"""The screen before, the cursor, the mouse and pasting as they were."""


@pytest.fixture
def start() -> Iterator[Callable[..., Terminal]]:
    """Starts consoles, waits for their first paint, and ends what is left of them."""
    opened: list[Terminal] = []

    def begin(*arguments: str, **more: object) -> Terminal:
        terminal = Terminal.console(*arguments, **more)
        opened.append(terminal)
        terminal.until(lambda: "B8" in terminal.text and "quit" in terminal.text)
        return terminal

    yield begin
    for terminal in opened:
        terminal.close()


def assert_restored(terminal: Terminal) -> None:
    assert terminal.settings() == terminal.before
    for sequence in RESTORED:
        on = sequence[:-1] + (b"l" if sequence.endswith(b"h") else b"h")
        assert terminal.raw.rfind(sequence) > terminal.raw.rfind(on), sequence


@pytest.mark.parametrize("key", ["q", "\x03", "\x11"], ids=["q", "ctrl+c", "ctrl+q"])
def test_leaving_by_key(start: Callable[..., Terminal], key: str) -> None:
    terminal = start("running")
    terminal.type(key)
    assert terminal.wait() == 0
    assert_restored(terminal)
    last = bytes(terminal.raw[terminal.raw.rfind(b"\x1b[?1049l") :]).decode()
    assert "pid 21877 runs on." in last


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_leaving_by_signal(start: Callable[..., Terminal], number: signal.Signals) -> None:
    terminal = start("running", "stuck")
    terminal.process.send_signal(number)
    assert terminal.wait() == 128 + number
    assert_restored(terminal)


def test_a_dead_link_does_not_hold_the_operator_up(start: Callable[..., Terminal]) -> None:
    terminal = start("running", "stuck")
    terminal.type("q")
    assert terminal.wait() == 0
    assert_restored(terminal)


@pytest.mark.parametrize("ignored", [False, True], ids=["hang-up", "hang-up under nohup"])
def test_a_lost_terminal_ends_it(start: Callable[..., Terminal], ignored: bool) -> None:
    terminal = start("running", nohup=ignored)
    terminal.hang_up()
    assert terminal.process.wait(20) != 0


def test_a_crash_restores_the_terminal_and_keeps_secrets(start: Callable[..., Terminal]) -> None:
    terminal = start("running", "crash", environment={"EAGLE3_API_KEY": SECRET})
    assert terminal.wait() == 1
    assert_restored(terminal)
    said = bytes(terminal.raw[terminal.raw.rfind(b"\x1b[?1049l") :]).decode()
    assert "RuntimeError: cannot go on with ***" in said.replace("\r\n", "\n")
    assert "program.py" in said
    assert SECRET.encode() not in terminal.raw


def test_a_resize_is_followed(start: Callable[..., Terminal]) -> None:
    terminal = start("incident", size=(120, 36))
    terminal.resize(60, 18)
    os.kill(terminal.process.pid, signal.SIGWINCH)
    # There is no room for the program's own name there.
    terminal.until(lambda: "gpu-07" in terminal.line(0) and "eagle3-console" not in terminal.line(0))
    terminal.until(lambda: "B8" in terminal.text)
