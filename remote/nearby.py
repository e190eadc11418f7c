"""The folder that was probably meant, where the one that was named is not there."""

from __future__ import annotations

import os
from pathlib import Path

from remote.layout import folder_names
from remote.text import clean

ENTRIES = 10_000
"""So many names are looked through; a folder of more is no folder in which somebody has mistyped a name."""


def nearby(path: Path) -> str:
    """What is there instead of a missing folder: `/data/eagle3 is there, and in it synth_100k`; "" where nothing helps.

    Looks at names alone, from the nearest parent that exists. Never raises.
    """
    for parent in path.parents:
        if os.path.isdir(parent):
            break
    else:
        return ""
    asked = path.relative_to(parent).parts[0]
    likely = _likely(parent, asked)
    if likely is not None:
        return f"{clean(parent / likely, 200)} is there"
    return f"{clean(parent, 200)} is there, with no {clean(asked, 80)} in it"


def _likely(parent: Path, asked: str) -> str | None:
    from difflib import get_close_matches  # only where something is wrong already

    try:
        names = folder_names(parent)
    except OSError:
        return None
    return next(iter(get_close_matches(asked, sorted(names)[:ENTRIES], 1)), None)
