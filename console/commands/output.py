"""How subcommands print: JSON in a pipe, text that fits a terminal, colour only where a person looks."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from typing import Any, TextIO

import click
from rich.console import Console
from rich.text import Text

from console.ports import Outcome, Proposal
from console.trace_text import ASCII, TraceLine, trace_lines
from console.view import Level

_STYLES: dict[str, dict[str, Any]] = {
    "title": {"bold": True},
    "dim": {"dim": True},
    "ok": {"fg": "green"},
    "warning": {"fg": "yellow"},
    "bad": {"fg": "red", "bold": True},
    "key": {"bold": True},
}
_LEVEL_STYLES: dict[Level, dict[str, Any]] = {Level.WARNING: _STYLES["warning"], Level.CRITICAL: _STYLES["bad"]}
_LEVELS = {Level.NOTE: " ", Level.WARNING: "!", Level.CRITICAL: "✗"}


def print_json(value: Any) -> None:
    """One JSON value on stdout."""
    print(json.dumps(value, ensure_ascii=False, indent=1))


def coloured(stream: TextIO) -> bool:
    """Whether colour may be used: a terminal, and no NO_COLOR."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def _ascii(stream: TextIO) -> bool:
    return "utf" not in (stream.encoding or "").lower()


def width_of(stream: TextIO) -> int:
    """The columns to write for; a pipe gets 120."""
    return shutil.get_terminal_size((120, 40)).columns if stream.isatty() else 120


def put(line: str, stream: TextIO, **style: Any) -> None:
    """One line, styled where that can be seen."""
    if _ascii(stream):
        line = line.translate(ASCII).encode("ascii", "replace").decode()
    print(click.style(line, **style) if style and coloured(stream) else line, file=stream)


def put_text(line: Text, stream: TextIO) -> None:
    """One line of rich text, with its colours where they can be seen."""
    if not coloured(stream):
        put(line.plain.rstrip(), stream)
        return
    console = Console(file=stream, width=max(len(line.plain), 1) + 1, force_terminal=True, highlight=False)
    console.print(line, no_wrap=True, crop=False, overflow="ignore", soft_wrap=True)


def put_spans(line: TraceLine, stream: TextIO) -> None:
    """One line of the trace."""
    if not coloured(stream):
        put(line.text, stream)
        return
    put("".join(click.style(span.text, **_STYLES.get(span.style, {})) for span in line.spans).rstrip(), stream)


def print_trace(plan: Mapping[str, Any], stream: TextIO, *, full: bool = False) -> None:
    """The whole trace as text."""
    for line in trace_lines(plan, width_of(stream), full=full):
        put_spans(line, stream)


def print_proposal(proposal: Proposal, stream: TextIO) -> None:
    """What would be done, to what, and what is to be known before."""
    put(proposal.title, stream, bold=True)
    for line in proposal.target:
        put(f"  {line}", stream)
    wide = max((len(stage.word) for stage in proposal.stages), default=0)
    for number, stage in enumerate(proposal.stages, 1):
        put(f"  {number} {stage.word.ljust(wide)}  {stage.detail}", stream)
        for more in stage.more:
            put(f"{' ' * (wide + 6)}{more}", stream)
    for remark in proposal.remarks:
        put(f"  {_LEVELS[remark.level]} {remark.text}", stream, **_LEVEL_STYLES.get(remark.level, {}))


def print_outcome(outcome: Outcome, stream: TextIO) -> None:
    """What came of it; a failure is loud."""
    put(outcome.headline, stream, **_STYLES["ok" if outcome.ok else "bad"])
    for remark in outcome.remarks:
        put(f"  {_LEVELS[remark.level]} {remark.text}", stream)
