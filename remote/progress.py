"""`.eagle3/progress.json`: what the generator says of itself once a second, for the agent to read.

Replaced whole, but not synced: it is worth nothing after a crash, and a sync a second is not free.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from remote.layout import Layout


def write_progress(layout: Layout, value: Mapping[str, Any]) -> None:
    """Replace the file: a reader sees the old content or the new. Raises OSError."""
    path = layout.progress_json
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        beside.write_bytes(json.dumps(value, separators=(",", ":")).encode() + b"\n")
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
