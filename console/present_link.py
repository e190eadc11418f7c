"""What is said when there is nothing else to show: connecting, failed, a key that is unknown or changed. Pure."""

from __future__ import annotations

import re

from rich.text import Text

from console import text
from console.view import LinkState, View
from remote.text import clean
from widgets.tones import ACT, DIM, LOOK, NOTE, STRONG

_FINGERPRINT = re.compile(r"((?:[\w.@-]+ )?SHA256:[\w+/=]+)[,;]? ?")


def waiting_lines(view: View) -> list[Text]:
    """The page in place of the table: what is being tried, what went wrong, what to do next."""
    link = view.link
    target = clean(link.target, 80) or "no target"
    lines = [_headline(link.state, target), Text("")]
    if link.stage:
        lines.append(Text(clean(link.stage, 200), DIM))
    if link.error:
        lines += _sentence(clean(link.error, 800))
    if link.remedy:
        lines += [Text(""), Text.assemble(("→ ", DIM), clean(link.remedy, 800))]
    if link.next_try_at is not None:
        wait = text.duration(max(0.0, round(link.next_try_at - view.now)))
        lines += [Text(""), Text(f"next try in {wait} (try {link.attempt + 1}); R tries now", DIM)]
    elif link.state in (LinkState.FAILED, LinkState.CHANGED_KEY, LinkState.UNKNOWN_KEY):
        lines += [Text(""), Text("R tries again, c other targets, q leaves", STRONG)]
    lines += [Text(""), Text("Whatever runs on the container runs on; it does not need this console.", DIM)]
    return lines


def _sentence(error: str) -> list[Text]:
    """The sentence; keys that are to be compared by eye stand one below the other."""
    pieces = _FINGERPRINT.split(error)
    return [
        Text(f"    {piece}" if at % 2 else piece.strip(), STRONG) for at, piece in enumerate(pieces) if piece.strip()
    ]


def _headline(state: LinkState, target: str) -> Text:
    words = {
        LinkState.CONNECTING: (f"Connecting to {target} …", NOTE),
        LinkState.RECONNECTING: (f"No connection to {target} yet", LOOK),
        LinkState.STALE: (f"{target} does not answer", LOOK),
        LinkState.FAILED: (f"No connection to {target}", ACT),
        LinkState.UNKNOWN_KEY: (f"The host key of {target} is not known yet", LOOK),
        LinkState.CHANGED_KEY: (f"THE HOST KEY OF {target} HAS CHANGED", ACT),
        LinkState.CLOSED: ("The link is closed", DIM),
        LinkState.LIVE: (f"Connected to {target}, waiting for its first look …", NOTE),
    }[state]
    return Text(words[0], f"bold {words[1]}" if "bold" not in words[1] else words[1])
