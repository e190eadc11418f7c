"""docs/files.md names every problem code with the very words that the screens use."""

from __future__ import annotations

import re
from pathlib import Path

from remote.problems import MEANINGS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "files.md"


def test_every_code_is_explained_once() -> None:
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert dict(rows) == MEANINGS
    assert len(rows) == len(MEANINGS)
