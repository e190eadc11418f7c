"""The schemas of the JSON outputs, from the page where they are documented: what is not documented is a fault."""

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


def schema_of(command: str) -> dict[str, Any]:
    """The schema under "### COMMAND --json", with the definitions that the page shares between them."""
    block = re.search(rf"### {command} --json\n.*?```json\n(.*?)\n```", PAGE.read_text(), re.S)
    assert block is not None, f"docs/json.md has no schema of {command} --json"
    status = status_schema()
    schema: dict[str, Any] = json.loads(block[1])
    shared = {"link": status["properties"]["link"], "alert": status["properties"]["alerts"]["items"]}
    if command != "doctor":
        shared["check"] = schema_of("doctor")["items"]
    return {**schema, "$defs": {**status["$defs"], **shared}}
