"""What really reaches the terminal: no escape sequence of others, no colour under NO_COLOR, ASCII without UTF-8."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.pty.test_leaving import start  # noqa: F401  a fixture
from tests.support.terminal import Terminal

Start = Callable[..., Terminal]

FOREIGN = (
    b"\x1b]0;", b"\x1b[2J\x1b]", b"\x1bP", b"\x07", "\x9b".encode(), "\u202e".encode(), "\u2066".encode(), b"\x1b[31m",
)  # fmt: skip
"""Pieces of the hostile text that a terminal would act on; Textual itself writes none of these."""

COLOR = re.compile(rb"\x1b\[(?:[0-9;]*;)?(?:3[0-7]|4[0-7]|38|48|9[0-7]|10[0-7])(?:;[0-9;]*)?m")
WAYS = ("d", "j\r", "l", "a", "e", "s", "?")


def walk(terminal: Terminal) -> None:
    """Go through the screens and back, each until it is painted."""
    for keys in WAYS:
        terminal.type(keys)
        terminal.until(lambda: "Esc back" in terminal.text)
        terminal.type("\x1b")
        terminal.until(lambda: "Esc back" not in terminal.text and "restart" in terminal.text)


def test_nothing_hostile_reaches_the_terminal(start: Start) -> None:  # noqa: F811
    terminal = start("incident", "hostile")
    walk(terminal)
    terminal.type("q")
    assert terminal.wait() == 0
    assert b"owned" in terminal.raw
    written = re.sub(rb"\x1b\]22;[a-z-]*\x07", b"", terminal.raw)  # Textual's own: the mouse pointer's shape
    for sequence in FOREIGN:
        assert sequence not in written, sequence


def test_no_color_sends_no_color(start: Start) -> None:  # noqa: F811
    terminal = start("incident", environment={"NO_COLOR": "1"})
    terminal.type("j")
    terminal.until(lambda: _reversed_rows(terminal) == ["B2"])
    assert COLOR.search(bytes(terminal.raw)) is None


@pytest.mark.parametrize("term", ["linux", "xterm"])
def test_sixteen_colors_are_the_terminals_own(start: Start, term: str) -> None:  # noqa: F811
    terminal = start("incident", environment={"TERM": term, "COLORTERM": ""})
    terminal.until(lambda: _reversed_rows(terminal) == ["B1"])
    assert b"\x1b[38" not in terminal.raw and b";38;" not in terminal.raw and b"48;" not in terminal.raw
    line = next(number for number, text in enumerate(terminal.text.split("\n")) if "not ours" in text)
    column = terminal.line(line).index("not ours")
    assert terminal.screen.buffer[line][column].fg == "red"


def test_without_utf8_everything_is_ascii(start: Start) -> None:  # noqa: F811
    terminal = start("incident", "hostile", environment={"LC_ALL": "C", "LANG": "C"})
    walk(terminal)
    assert all(byte < 0x80 for byte in terminal.raw)
    assert "Enter" in terminal.text


def _reversed_rows(terminal: Terminal) -> list[str]:
    """Ids of the rows that stand in reverse video."""
    return [
        text.strip()[:2]
        for number, text in enumerate(terminal.text.split("\n"))
        if re.match(r"\s*B\d ", text) and terminal.screen.buffer[number][1].reverse
    ]
