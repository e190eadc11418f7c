"""Something was done on the container and its audit could not be written: said, for what was done stays done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from console.ports import Remark
from console.view import Level
from remote.text import clean


def unrecorded(*results: Mapping[str, Any] | None) -> tuple[Remark, ...]:
    """A remark for each of the agent's results that says `audit_error`."""
    faults = dict.fromkeys(
        clean(result["audit_error"], 400) for result in results if result and result.get("audit_error")
    )
    return tuple(Remark(Level.WARNING, f"it was done, and the audit does not say so: {fault}") for fault in faults)
