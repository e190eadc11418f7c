"""Files that grew until a moment ago: whether they still do, looked at for a few seconds.

After a writer has died its files count as growing for a while. A start must not be refused for
the dead one's last lines, and must be refused for those of somebody who writes on unseen.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from remote.layout import RESPONSES, Layout

SETTLE_S = 4.0
_LOOK_EVERY_S = 0.25


def still_growing(layout: Layout, folders: Sequence[str], settle_s: float = SETTLE_S) -> list[str]:
    """Those of the folders whose raw_responses.jsonl changes its size within `settle_s`.

    Returns at once when there are none, and as soon as every one has grown.
    """
    waiting = {folder: _size(layout, folder) for folder in folders}
    until = time.monotonic() + settle_s
    while waiting and time.monotonic() < until:
        time.sleep(_LOOK_EVERY_S)
        waiting = {folder: size for folder, size in waiting.items() if _size(layout, folder) == size}
    return [folder for folder in folders if folder not in waiting]


def _size(layout: Layout, folder: str) -> int | None:
    try:
        return (layout.folder(folder) / RESPONSES).stat().st_size
    except OSError:
        return None
