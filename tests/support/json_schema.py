"""The schema of `status --json`, from the page where it is documented: what is not documented is a fault."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "json.md"


def status_schema() -> dict[str, Any]:
    """The fenced JSON block under "The schema"."""
    block = re.search(r"## The schema\n\n```json\n(.*?)\n```", PAGE.read_text(), re.S)
    assert block is not None, "docs/json.md has lost its schema"
    schema: dict[str, Any] = json.loads(block[1])
    return schema
