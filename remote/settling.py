"""Files that grew until a moment ago: whether they still do, looked at for a few seconds.

After a writer was killed its files count as growing for a while. A start must not be refused for
the dead one's last lines, and must be refused for those of somebody who writes on unseen.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from remote.facts import DatasetState
from remote.layout import RESPONSES, Layout

SETTLE_S = 4.0
_LOOK_EVERY_S = 0.25


def settle(layout: Layout, states: Sequence[DatasetState], settle_s: float = SETTLE_S) -> list[DatasetState]:
    """The same states, where `growing` holds only for answers that grew again within `settle_s`.

    Returns at once when nothing was growing, and as soon as everything has grown again.
    """
    waiting = {state.folder: _size(layout, state.folder) for state in states if state.growing}
    growing: set[str] = set()
    until = time.monotonic() + settle_s
    while waiting and time.monotonic() < until:
        time.sleep(_LOOK_EVERY_S)
        for folder, size in list(waiting.items()):
            if _size(layout, folder) != size:
                growing.add(folder)
                del waiting[folder]
    return [replace(state, growing=state.folder in growing) for state in states]


def _size(layout: Layout, folder: str) -> int | None:
    try:
        return (layout.folder(folder) / RESPONSES).stat().st_size
    except OSError:
        return None
