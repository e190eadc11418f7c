"""What a card says. By itself, because the commands that print the same lines in a pipe start without Textual."""

from __future__ import annotations

from dataclasses import dataclass

from rich.text import Text


@dataclass(frozen=True)
class CardValue:
    """What a card says: its title, its lines, and whether they are out of date."""

    title: str
    lines: tuple[Text, ...] = ()
    stale: bool = False
