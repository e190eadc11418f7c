"""JSON merge patch (RFC 7396): what changed between two JSON objects, and how to apply it.

Both ends of the link use it: the agent makes patches of the snapshot, the console applies
them. A merge patch spends `null` on "this key is gone", so both ends hold objects without
null members: `without_nulls` makes one, and a reader takes an absent key for unknown.
Nulls inside lists stay, because a list is always replaced whole.
"""

from __future__ import annotations

from typing import Any

Json = Any
"""None, bool, int, float, str, list or dict with string keys, as `json.loads` gives them."""


def without_nulls(value: Json) -> Json:
    """The value with every null member of every object dropped, lists left as they are."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return value


def diff(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The smallest merge patch that turns `old` into `new`; `{}` when they are equal.

    Both must be free of nulls in the sense of `without_nulls`. Equality is JSON's: `1` and
    `True` differ, and so do `1` and `1.0`, because a reader can tell them apart.
    """
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old:
            patch[key] = value
            continue
        before = old[key]
        if isinstance(before, dict) and isinstance(value, dict):
            inner = diff(before, value)
            if inner:
                patch[key] = inner
        elif not same(before, value):
            patch[key] = value
    return patch


def apply(target: Json, patch: Json) -> Json:
    """The patched value; `target` is left alone and shares what did not change (RFC 7396, section 2)."""
    if not isinstance(patch, dict):
        return patch
    out: dict[str, Any] = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = apply(out.get(key), value)
    return out


def same(one: Json, other: Json) -> bool:
    """JSON equality, where Python's would take `True` for `1` and `1.0` for `1`."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)
