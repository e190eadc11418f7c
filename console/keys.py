"""The one table of keys: bindings, key bar, help, palette, README and tests are made from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from textual.binding import Binding


class Needs(StrEnum):
    """What must hold before a key does anything; without it the key is dimmed and does nothing."""

    NOTHING = "nothing"
    LOOK = "look"
    """A first look at the container: it shows what was last seen of it."""
    LINK = "link"
    """A live link: it asks the container, and changes nothing there."""
    CHANGE = "change"
    """A live link, and a console that is not read-only: it changes something on the container."""


@dataclass(frozen=True)
class Key:
    """One row of the table.

    `keys` are Textual's key names, comma-separated; `shown` is how the key is printed;
    `action` is the action of the screen or the app; `word` stands in the key bar, `help` in
    the help screen and the palette; `destructive` ones always ask before they act.
    """

    id: str
    keys: str
    shown: str
    action: str
    word: str
    help: str
    needs: Needs = Needs.NOTHING
    destructive: bool = False
    bar: bool = True

    @property
    def binding(self) -> Binding:
        """The key as Textual binds it."""
        return Binding(self.keys, self.action, self.word, show=False, key_display=self.shown, id=self.id)


MAIN: tuple[Key, ...] = (
    Key(
        "restart",
        "r",
        "r",
        "restart",
        "restart",
        "Restart with the token budget: shows what would happen",
        Needs.CHANGE,
        destructive=True,
    ),
    Key(
        "kill",
        "K",
        "K",
        "kill",
        "kill",
        "Kill a process: drain, now or force",
        Needs.CHANGE,
        destructive=True,
    ),
    Key("trace", "d", "d", "trace", "trace", "Dry run: what a restart would do to each dataset, and why", Needs.LINK),
    Key(
        "budget",
        "b",
        "b",
        "budget",
        "budget",
        "Another token budget: see what it would mean, apply it live",
        Needs.LINK,
    ),
    Key("pause", "p", "p", "pause", "pause", "Pause: stop admitting prompts; press again to resume", Needs.CHANGE),
    Key(
        "tokenize",
        "t",
        "t",
        "tokenize",
        "tokenize",
        "Rebuild tokenized_data.jsonl: wherever it is needed",
        Needs.CHANGE,
    ),
    Key(
        "detail",
        "enter",
        "⏎",
        "detail",
        "open",
        "Open the dataset under the cursor: files, lengths, problems, a training row",
        Needs.LOOK,
    ),
    Key(
        "schema",
        "s",
        "s",
        "schema",
        "schema",
        "Schema problems: of all datasets, by line and byte",
        Needs.LOOK,
        bar=False,
    ),
    Key("log", "l", "l", "log", "log", "The generator's log: follow, search", Needs.LOOK),
    Key("engine", "e", "e", "engine", "engine", "Engine and GPUs: now, and through the night", Needs.LOOK),
    Key("alerts", "a", "a", "alerts", "alerts", "Alerts, audit, notes and the hold", Needs.LOOK),
    Key("targets", "c", "c", "targets", "others", "Other targets"),
    Key("order", "o", "o", "order", "order", "Order of the rows: by id, by state, by tokens missing", bar=False),
    Key("copy", "y", "y", "copy", "copy", "Copy the row under the cursor", bar=False),
)

EVERYWHERE: tuple[Key, ...] = (
    Key("help", "question_mark,f1", "?", "help", "help", "Help for what has the focus"),
    Key("quit", "q", "q", "leave", "quit", "Leave: nothing on the container stops"),
    Key("palette", "ctrl+p", "ctrl+p", "command_palette", "palette", "All commands by name", bar=False),
    Key("reconnect", "R", "R", "reconnect", "reconnect", "Try to reconnect now", bar=False),
    Key("theme", "T", "T", "next_theme", "theme", "Dark or light", bar=False),
)

MOVES: tuple[Key, ...] = (
    Key("down", "j,down", "j", "down", "down", "Down", bar=False),
    Key("up", "k,up", "k", "up", "up", "Up", bar=False),
    Key("page_down", "pagedown,space", "PgDn", "page_down", "page down", "A page down", bar=False),
    Key("page_up", "pageup", "PgUp", "page_up", "page up", "A page up", bar=False),
    Key("top", "home,g", "g", "top", "top", "To the top", bar=False),
    Key("bottom", "end,G", "G", "bottom", "bottom", "To the end", bar=False),
)

BACK = Key("back", "escape", "Esc", "back", "back", "Back to the screen before")

FIRST_RUN: tuple[Key, ...] = (
    Key("connect", "enter", "⏎", "connect", "connect", "Connect, and save the address as a profile when that works"),
    Key("leave", "escape", "Esc", "leave", "leave", "Leave: there is nothing yet to go back to"),
)

TRACE: tuple[Key, ...] = (
    Key("trace_budget", "b", "b", "budget", "budget", "Another token budget: the trace changes", Needs.LINK),
    Key("trace_save", "o", "o", "save", "save", "Save the trace to a file here"),
    Key("trace_copy", "y", "y", "copy", "copy", "Copy the trace"),
    Key("trace_again", "d", "d", "again", "plan again", "Ask the container for the plan again", Needs.LINK, bar=False),
    Key(
        "trace_restart",
        "r",
        "r",
        "restart",
        "restart",
        "Restart with this budget",
        Needs.CHANGE,
        destructive=True,
    ),
)

DETAIL: tuple[Key, ...] = (
    Key("detail_next", "n,right", "n", "next_row", "next row", "The next training row", Needs.LINK),
    Key("detail_previous", "N,left", "N", "previous_row", "previous", "The training row before", Needs.LINK),
    Key("detail_copy", "y", "y", "copy", "copy", "Copy what this screen says"),
)

LOG: tuple[Key, ...] = (
    Key("log_search", "slash", "/", "search", "search", "Search with a regular expression"),
    Key("log_next", "n", "n", "next_match", "next", "The next match"),
    Key("log_previous", "N", "N", "previous_match", "previous", "The match before"),
    Key("log_follow", "f", "f", "follow", "follow", "Follow the end, or stay here"),
    Key("log_level", "v", "v", "level", "level", "Show all lines, warnings and errors, or errors only"),
    Key("log_copy", "y", "y", "copy", "copy", "Copy the lines on the screen"),
)

ALERTS: tuple[Key, ...] = (
    Key("ack", "x", "x", "ack", "seen", "Mark the alert under the cursor as seen", Needs.CHANGE),
    Key("note", "n", "n", "note", "note", "Leave a note for the next shift", Needs.CHANGE),
    Key("hold", "h", "h", "hold", "hold", "Set or lift the hold that a restart must accept by name", Needs.CHANGE),
)

TARGETS: tuple[Key, ...] = (
    Key("target_switch", "enter", "⏎", "switch", "switch", "Show the target under the cursor"),
    Key("target_add", "n", "n", "add", "add", "Add a target from an address or a pasted ssh command"),
)

SCREENS: dict[str, tuple[Key, ...]] = {
    "main": MAIN,
    "trace": TRACE,
    "detail": DETAIL,
    "log": LOG,
    "alerts": ALERTS,
    "targets": TARGETS,
    "everywhere": EVERYWHERE,
    "moves": MOVES,
}
"""All keys by where they work; the key table of the docs is made from this."""


def bindings(*keys: Key) -> list[Binding]:
    """What a screen puts in `BINDINGS`."""
    return [key.binding for key in keys]


def allowed(key: Key, *, live: bool, read_only: bool, known: bool) -> bool:
    """Whether a key may do anything now. `known`: something has been seen of the container, be it old."""
    match key.needs:
        case Needs.CHANGE:
            return live and not read_only
        case Needs.LINK:
            return live
        case Needs.LOOK:
            return known
        case Needs.NOTHING:
            return True


def by_action(keys: tuple[Key, ...], action: str) -> Key | None:
    """The row of an action, or None."""
    return next((key for key in keys if key.action == action), None)
