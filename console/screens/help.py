"""Help: the keys of the screen one came from, what its words mean, and which keys change something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from console import keys
from console.desk import Desk
from console.keys import Key, Needs, allowed
from console.screens.scrolled import PageScreen
from console.view import View
from widgets.tones import DIM, LOOK, STRONG
from widgets.wrapping import hung, wrapped_text

WORDS: dict[str, tuple[tuple[str, str], ...]] = {
    "main": (
        ("not ours", "a process that writes the datasets and was not launched from this console"),
        ("left alone", "what the process that runs now would still do that no budget asks for"),
        ("of 10 M", "share of the token budget, in completion tokens; rounded down, so 100 % means reached"),
        ("schema ✓", "every record was checked: ✓ all valid, ~ repairable or repeated, ✗ unusable or torn"),
        ("partial", "some answers are there and the budget is not met; a restart resumes"),
        ("blocked", "its records are at fault: a restart leaves it out until that is accepted by name; s shows them"),
        ("exhausted", "every prompt is answered and the budget is not met: there is nothing left to ask"),
        ("STALE", "nothing was heard from the container for that long; the figures are old, what runs there runs on"),
    ),
    "trace": (
        ("skip", "nothing is generated; with a budget the sample-count skip is bypassed, and said to be"),
        ("resume", "answers that are there are kept, their prompts are not asked again"),
        ("blocked", "left out of the run until the problem is accepted by name"),
        ("rebuild", "tokenized_data.jsonl is written beside, compared, and swapped in; the old one is kept"),
    ),
    "detail": (
        ("┃ mask 1", "tokens that the loss counts: the answer"),
        ("┆ mask 0", "tokens that are only read: the prompt"),
        ("‹…›", "a special token"),
        ("length", "the answer was cut by the token limit: not a normal end"),
    ),
    "log": (
        ("PAUSED +N", "N lines have come since you began to read; f or G follows again"),
        ("search", "letters match both cases unless one of them is a capital"),
    ),
    "alerts": (
        ("seen", "somebody took notice; the alert stays in the list and is no longer loud"),
        ("HOLD", "a restart refuses until the hold is lifted or accepted by name"),
    ),
}


LEAD_WIDTH = 12
"""Cells of a key, or of a word that is explained: all rows of the page begin in one column."""


class HelpScreen(PageScreen):
    """Made from the key table; read-only and a lost link are marked at the keys they stop."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,f1,q", "back", show=False),
    ]

    def __init__(self, desk: Desk, place: str, screen_keys: Sequence[Key], focus_words: str = "") -> None:
        super().__init__(desk)
        self.place, self.screen_keys, self.focus_words = place, tuple(screen_keys), focus_words

    def all_keys(self) -> tuple[Key, ...]:
        return (keys.BACK,)

    def lines(self, view: View) -> Sequence[Text]:
        live, read_only = view.link.fresh, view.options.read_only
        lines = [Text.assemble((f"help: {self.place}", STRONG), (f"   {self.focus_words}", DIM))]
        if read_only:
            lines += wrapped_text(
                Text("This target is read-only: keys marked ✗ do nothing, and the container refuses them too.", LOOK),
                self.page_width,
            )
        if not live:
            lines.append(Text("There is no live link: keys marked ✗ do nothing until it is back.", LOOK))
        width = self.page_width
        known = view.snapshot is not None
        for title, rows in (("", self.screen_keys), ("everywhere", keys.EVERYWHERE)):
            lines += [Text(title, STRONG)]
            for key in rows:
                lines += key_lines(key, allowed(key, live=live, read_only=read_only, known=known), width)
        lines += [
            Text("moving", STRONG),
            *(pair_line(*pair) for pair in zip(keys.MOVES[::2], keys.MOVES[1::2], strict=True)),
        ]
        words = WORDS.get(self.place, ())
        lines += [Text("words", STRONG)] if words else []
        for word, meaning in words:
            lines += hung(Text(_lead(word)), Text(meaning, DIM), width)
        return lines


def _lead(words: str) -> str:
    return f"  {words:<{LEAD_WIDTH}}"


def key_lines(key: Key, works: bool, width: int) -> list[Text]:
    """A row of the help: key, what it does, and marks for what asks, changes, or does nothing now."""
    words = Text.assemble((key.help, "" if works else DIM))
    if not works:
        words.append("  ✗ not now", LOOK)
    elif key.destructive:
        words.append("  asks first", LOOK)
    elif key.needs is Needs.CHANGE:
        words.append("  changes the container", DIM)
    return hung(Text.assemble((_lead(key.shown), STRONG if works else DIM)), words, width)


def pair_line(one: Key, other: Key) -> Text:
    """Two keys that belong together in one row."""
    return Text.assemble((_lead(f"{one.shown} {other.shown}"), STRONG), f"{one.help}, {other.help.lower()}")
