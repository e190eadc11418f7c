"""Who did what to this root, when and why: kept on the container, so that the next shift and other consoles see it.

`audit.jsonl` holds an entry per action with the whole plan that was confirmed; `hold.json` one
order that nothing be started; `acks.json` the alerts that somebody has taken notice of.
"""

from __future__ import annotations

import functools
import itertools
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from remote.appended import append_line, read_backwards
from remote.errors import OperatorError
from remote.layout import Layout
from remote.masking import masked_hook, masked_url
from remote.runfile import number, read_object, write_object
from remote.text import clean

MAX_NOTE_CHARS = 2000
MAX_ACKS = 500


def who(by: str) -> dict[str, str]:
    """`user@host` as an audit entry names it; without `@` it is all user."""
    user, _, host = by.rpartition("@") if "@" in by else (by, "", "")
    return {"user": clean(user, 80), "host": clean(host, 120)}


def record(
    layout: Layout,
    by: str,
    action: str,
    outcome: str,
    detail: str = "",
    target: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    plan: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Append one entry and return it; `target` is the identity that was acted on.

    An action that was carried out must not fail for want of its record, and must not go unsaid
    either: raises OperatorError("audit") when the entry could not be written.
    """
    entry: dict[str, Any] = {
        "at": round(time.time(), 3),
        "who": who(by),
        "action": clean(action, 60),
        "outcome": clean(outcome, 200),
        "detail": clean(detail, MAX_NOTE_CHARS),
        "target": dict(target) if target is not None else None,
        "options": _shown(dict(options)) if options is not None else None,
        "plan": _shown(dict(plan)) if plan is not None else None,
        **{name: _shown(value) for name, value in more.items()},
    }
    try:
        layout.make_state()
        append_line(layout.audit_jsonl, entry)
    except OSError as error:
        raise OperatorError(
            "audit",
            f"cannot write {layout.audit_jsonl}: {error.strerror}",
            "check free space and permissions of the root; the action itself is not affected",
        ) from None
    return entry


def read(layout: Layout, limit: int) -> list[dict[str, Any]]:
    """The last `limit` entries, newest first; damaged lines are passed over. Raises OperatorError("audit").

    Looking again costs a `stat` while nothing was added: entries hold whole plans, and the agent looks often.
    """
    path = str(layout.audit_jsonl)
    try:
        found = os.stat(path)
        return list(_read(path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, max(0, limit)))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise OperatorError("audit", f"cannot read {path}: {error.strerror}", "check its permissions") from None


@functools.lru_cache(maxsize=4)
def _read(path: str, _dev: int, _ino: int, _size: int, _mtime_ns: int, limit: int) -> tuple[dict[str, Any], ...]:
    return tuple(itertools.islice(read_backwards(Path(path)), limit))


def last(layout: Layout, *actions: str) -> dict[str, Any] | None:
    """The newest entry of one of these actions, or None."""
    return next((entry for entry in read(layout, 10_000) if entry.get("action") in actions), None)


def add_note(layout: Layout, by: str, text: str) -> dict[str, Any]:
    """Leave a note for the next shift. Raises OperatorError when it is empty or cannot be written."""
    if not text.strip():
        raise OperatorError("usage", "the note is empty", "write what the next shift should know")
    return record(layout, by, "note", "noted", text.strip())


def write_hold(layout: Layout, by: str, reason: str, until: float | None = None) -> dict[str, Any]:
    """Order that nothing be started, until a Unix time or until it is cleared. Returns the hold.

    Raises OperatorError: a hold without a reason tells the next shift nothing.
    """
    if not reason.strip():
        raise OperatorError("usage", "a hold needs a reason", 'write one, such as "extraction reading, until 14:00"')
    hold = {"by": clean(by, 200), "reason": clean(reason.strip(), 500), "until": until, "at": round(time.time(), 3)}
    _write(layout, "hold", hold)
    record(layout, by, "hold", "set", str(hold["reason"]), until=until)
    return hold


def clear_hold(layout: Layout, by: str) -> None:
    """Take the hold back; it stays in the audit. Raises OperatorError."""
    hold = read_hold(layout, 0.0)
    try:
        layout.hold_json.unlink(missing_ok=True)
    except OSError as error:
        raise _cannot(layout.hold_json, error) from None
    if hold is not None:
        record(layout, by, "hold", "cleared", str(hold.get("reason") or ""))


def read_hold(layout: Layout, now: float | None = None) -> dict[str, Any] | None:
    """The hold in force: `{"by", "reason", "until", "at"}`, or None when there is none or its time is over.

    A damaged `hold.json` still holds: somebody wanted nothing started, and that is what it says.
    """
    try:
        value = read_object(layout.hold_json)
    except OperatorError as error:
        return {"by": "", "reason": error.message, "until": None, "at": None}
    if value is None:
        return None
    until = number(value.get("until"))
    if until is not None and until <= (time.time() if now is None else now):
        return None
    return {
        "by": clean(value.get("by") or "", 200),
        "reason": clean(value.get("reason") or "", 500),
        "until": until,
        "at": number(value.get("at")),
    }


def acknowledge(layout: Layout, by: str, key: str, note: str = "") -> dict[str, Any]:
    """Mark an alert as taken notice of; returns all acknowledgements. Raises OperatorError."""
    if not key:
        raise OperatorError("usage", "no alert was named", "choose one in the alerts")
    acks = read_acks(layout)
    acks.pop(key, None)
    acks[key] = {"by": clean(by, 200), "at": round(time.time(), 3), "note": clean(note, 500)}
    acks = dict(list(acks.items())[-MAX_ACKS:])
    _write(layout, "acks", acks)
    return acks


def unacknowledge(layout: Layout, key: str) -> dict[str, Any]:
    """Take an acknowledgement back; returns those that are left. Raises OperatorError."""
    acks = read_acks(layout)
    if acks.pop(key, None) is not None:
        _write(layout, "acks", acks)
    return acks


def read_acks(layout: Layout) -> dict[str, Any]:
    """Alert key to `{"by", "at", "note"}`; a damaged file is no acknowledgement."""
    try:
        value = read_object(layout.acks_json) or {}
    except OperatorError:
        return {}
    return {key: ack for key, ack in value.items() if isinstance(ack, dict)}


def _write(layout: Layout, name: str, value: Mapping[str, Any]) -> None:
    path = layout.state / f"{name}.json"
    try:
        layout.make_state()
        write_object(path, value)
    except OSError as error:
        raise _cannot(path, error) from None


def _cannot(path: object, error: OSError) -> OperatorError:
    return OperatorError(
        "audit", f"cannot write {path}: {error.strerror}", "check free space and permissions of the root"
    )


def _shown(value: Any) -> Any:
    """The value with addresses that carry secrets masked, wherever in it they are."""
    if isinstance(value, Mapping):
        return {
            str(key): [masked_hook(str(url)) for url in item]
            if key == "notify" and isinstance(item, (list, tuple))
            else _shown(item)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_shown(item) for item in value]
    return masked_url(value) if isinstance(value, str) and "://" in value else value
