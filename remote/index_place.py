"""Where the scanner's memory is kept between two agents: `.eagle3` once it exists, else a cache folder of the container."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from remote.layout import Layout, write_whole
from remote.stage0 import cache_places


def index_place(layout: Layout, read_only: bool) -> Path | None:
    """The path of the index; None where nothing can be kept. A cache folder of ours is made when it is needed.

    `read_only` keeps even an existing `.eagle3` untouched: nothing is written under the root then.
    """
    cached = _cached(layout)
    if read_only or not layout.state.is_dir() or not os.access(layout.state, os.W_OK):
        return cached
    here = Path(layout.index_json)
    if cached is not None and cached.is_file() and not here.exists():
        # The first launch made `.eagle3`: what was remembered until then moves in.
        try:
            write_whole(here, cached.read_bytes())
        except OSError:
            return cached
    return here


def _cached(layout: Layout) -> Path | None:
    name = hashlib.sha256(os.fsencode(os.path.realpath(layout.root))).hexdigest()[:16]
    for place in cache_places(os.environ, os.getuid()):
        folder = Path(place)
        if _usable(folder):
            return folder / f"index-{name}.json"
    return None


def _usable(folder: Path) -> bool:
    """Make the folder private and ours; a shared place may hold one that somebody else has prepared."""
    try:
        if folder.parent.name == ".cache":
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        facts = folder.lstat()
    except OSError:
        return False
    ours = facts.st_uid == os.getuid() and not facts.st_mode & 0o022 and folder.is_dir() and not folder.is_symlink()
    return ours and os.access(folder, os.W_OK)
