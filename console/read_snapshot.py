"""From the agent's JSON to `console.model`: lenient, total, and with a note for everything that was not understood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from console.lenient import Fields
from console.model import Ack, Dataset, Snapshot
from console.shape import read
from remote.layout import dataset_id, dataset_title
from remote.text import clean

_NAME_LIMIT = 120


def read_snapshot(value: Any, before: tuple[Mapping[str, Any], Snapshot] | None = None) -> Snapshot:
    """A snapshot from whatever the agent sent. Never raises: what has a wrong type is unknown and noted.

    `before` is an earlier value with its snapshot: parts that are the very same objects in both,
    as a merge patch leaves them, are taken over instead of being read again.
    """
    notes: list[str] = []
    top = Fields(value, "snapshot", notes)
    # Notes belong to a whole snapshot: one that has any is read afresh, so that none is lost.
    earlier, known = before if before is not None and not before[1].misread else ({}, None)
    parts: dict[str, Any] = {"misread": ()}
    if known is not None:
        same = [item.name for item in fields(Snapshot) if top.raw(item.name) is not None]
        parts |= {name: getattr(known, name) for name in same if top.raw(name) is earlier.get(name)}
    if "datasets" not in parts:
        parts["datasets"] = _datasets(top, earlier.get("datasets"), known)
    if "acks" not in parts:
        parts["acks"] = top.members("acks", _ack, 1000)
    made = read(Snapshot, top, **parts)
    # The notes are complete only once everything has been read.
    return replace(made, misread=tuple(notes)) if notes else made


def _datasets(top: Fields, earlier: Any, known: Snapshot | None) -> tuple[Dataset, ...]:
    """The rows in the run's order; those whose object is that of `earlier` are the ones of `known`."""
    rows = {row.folder: row for row in known.datasets} if known is not None and isinstance(earlier, dict) else {}

    def dataset(folder: str, row: Fields) -> Dataset:
        found = rows.get(folder)
        return found if found is not None and row.is_object(earlier.get(folder)) else _dataset(folder, row)

    return tuple(sorted(top.members("datasets", dataset), key=_order))


def _order(row: Dataset) -> tuple[int, str]:
    return (row.order if row.order is not None else 1_000_000, row.folder)


def _dataset(folder: str, row: Fields) -> Dataset:
    """One row, with what the agent leaves out because the rest tells it."""
    sent = read(Dataset, row, folder=clean(folder, _NAME_LIMIT))
    return replace(
        sent,
        id=sent.id or clean(dataset_id(folder), 80),
        title=sent.title or clean(dataset_title(folder), 80),
        answered=sent.answered if sent.answered is not None else sent.schema.usable,
        files_changed_at=sent.files_changed_at or sent.last_answer_at,
    )


def _ack(key: str, row: Fields) -> Ack:
    return read(Ack, row, key=clean(key, _NAME_LIMIT))
