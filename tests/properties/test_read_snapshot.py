"""Whatever an agent sends, reading it raises nothing; what has a wrong type is unknown and noted."""

from __future__ import annotations

import dataclasses
import json
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from console.alerts import AlertHistory, judge
from console.model import Snapshot
from console.rates import RateHistory, advance, etas, rates, totals
from console.read_snapshot import read_snapshot
from console.status_json import check_status, status_json
from console.thresholds import Thresholds
from console.view import Alert, Level, Link, LinkState, View
from remote.mergepatch import apply, diff, without_nulls
from remote.options import Options
from tests.support.json_schema import status_schema

RECORDED = [
    path
    for path in sorted((Path(__file__).parents[1] / "ui" / "snapshots").glob("*.json"))
    if "datasets" in json.loads(path.read_text())
]
SCHEMA = Draft202012Validator(status_schema())
WHOLE: dict[str, Any] = {
    "seq": 3,
    "at": 1000.0,
    "root": "/data",
    "host": {"hostname": "h", "boot_id": "b", "cpus": 2, "memory_total_bytes": 5, "memory_available_bytes": 4},
    "agent": {"release": "r", "pid": 1, "python": "3.11"},
    "datasets": {
        "B1_glaive": {
            "id": "B1", "title": "Glaive", "order": 0, "kind": "prompts", "state": "partial", "prompts": 5,
            "responses": 4, "tokenized": 0, "tokens": 100, "budget": 1000, "prompts_left": 1, "no_eos": 0,
            "finish_reasons": {"stop": 4}, "in_work": True, "in_flight": 1, "rate_tokens_s": 3.5, "last_answer_at": 990,
            "schema": {"valid": 4, "repairable": 0, "unusable": 1, "problems": [{"code": "bad-json", "count": 1, "line": 3}]},
            "inference": {"decision": "resume", "reason": "partial"}, "tokenization": {"decision": "rebuild", "reason": "no-meta"},
        }
    },
    "generator": {
        "verdict": "running", "pid": 7, "supervisor_pid": 6, "identity": {"pid": 7}, "argv": ["python"],
        "token_budget": "1000", "since": 900.0, "in_work": ["B1_glaive"], "errors": {"timeout": 1}, "answers": 4,
        "progress_at": 999.0, "exit": {"code": 1, "at": 5.0, "reason": "failed"},
    },
    "writers": [{"pid": 9, "identity": {"pid": 9}, "argv": ["x"], "datasets": ["B1_glaive"], "parent": {"pid": 1}, "needless_by": {"B1_glaive": 5}}],
    "engine": {"health": "healthy", "running": 5, "token_usage": 0.5},
    "gpus": {"rows": [{"index": 0, "name": "G", "utilisation": 5.0}], "detail": ""},
    "disk": {"free_bytes": 5, "total_bytes": 6, "free_inodes": 7},
    "lock": {"held": True, "holder": "pid 7"},
    "hold": {"by": "a", "reason": "b", "at": 1.0, "until": 2.0},
    "acks": {"disk": {"by": "a", "at": 1.0}},
    "audit": [{"at": 1.0, "who": {"user": "a", "host": "b"}, "action": "launch", "outcome": "running"}],
    "log": {"size": 5, "lines": ["a"]},
    "problems": ["gpus: none"],
    "pending": ["datasets"],
}  # fmt: skip
JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just("\x1b[2J\u202e\x00"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in the snapshot, the whole included."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


def put(value: Any, path: tuple[Any, ...], junk: Any) -> Any:
    """A copy with junk at one place."""
    if not path:
        return junk
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = put(value[path[0]], path[1:], junk)
    return copy


def texts(value: Any) -> list[str]:
    """Every text in a tree of values, opaque identities excepted."""
    if isinstance(value, str):
        return [value]
    if dataclasses.is_dataclass(value):
        return [
            text
            for item in dataclasses.fields(value)
            if item.name != "identity"
            for text in texts(getattr(value, item.name))
        ]
    if isinstance(value, Mapping):
        return [text for key, item in value.items() for text in [key, *texts(item)]]
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in texts(item)]
    return []


def whole_view(snapshot: Snapshot) -> View:
    link = Link(LinkState.LIVE, "t", age_s=0.1, skew_s=0.0)
    view = View(now=1001.0, link=link, options=Options(), snapshot=snapshot)
    speeds = rates(advance(RateHistory(), snapshot, 0.0), snapshot)
    eta_s = etas(snapshot, speeds)
    view = dataclasses.replace(view, rates=speeds, eta_s=eta_s, totals=totals(snapshot, speeds, eta_s))
    return dataclasses.replace(view, alerts=judge(view, AlertHistory(), Thresholds(), 0.0)[1])


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(places(WHOLE)), JUNK)
def test_junk_anywhere_is_unknown_and_takes_nothing_else_with_it(path: tuple[Any, ...], junk: Any) -> None:
    snapshot = read_snapshot(put(WHOLE, path, junk))
    for text in texts(snapshot):
        assert all(unicodedata.category(char)[0] != "C" for char in text), repr(text)
    view = whole_view(snapshot)
    SCHEMA.validate(json.loads(json.dumps(status_json(view), allow_nan=False)))
    assert check_status(view) in (0, 1, 2, 3)
    if path and path[0] != "datasets":
        assert snapshot.datasets == read_snapshot(WHOLE).datasets


@pytest.mark.parametrize(
    "junk",
    ["\x1b[2J\u202e\x00", float("nan"), float("inf"), 10**400, -5, 1.5, True, [], {"x": {}}, [[5]], None],
    ids=repr,
)
def test_each_kind_of_junk_at_each_place(junk: Any) -> None:
    for path in places(WHOLE):
        snapshot = read_snapshot(put(WHOLE, path, junk))
        for text in texts(snapshot):
            assert all(unicodedata.category(char)[0] != "C" for char in text), (path, text)
        view = View(now=1001.0, link=Link(LinkState.LIVE), options=Options(), snapshot=snapshot)
        json.dumps(status_json(view), allow_nan=False)


def test_a_good_snapshot_is_read_whole() -> None:
    snapshot = read_snapshot(WHOLE)
    assert snapshot.misread == ()
    row = snapshot.datasets[0]
    assert (row.answered, row.remaining_tokens, row.schema.problems[0].line) == (4, 900, 3)
    assert snapshot.generator.running and snapshot.generator.identity == {"pid": 7}
    assert snapshot.audit[0].who == "a@b" and snapshot.acks[0].key == "disk"


@given(st.lists(st.tuples(st.sampled_from(places(WHOLE)[1:]), st.none() | st.integers(0, 9) | JUNK), max_size=4))
def test_reading_a_patched_snapshot_gives_what_reading_it_afresh_gives(
    changes: list[tuple[tuple[Any, ...], Any]],
) -> None:
    raw = without_nulls(WHOLE)
    held = read_snapshot(raw)
    for path, junk in changes:
        try:
            patched = apply(raw, diff(raw, without_nulls(put(raw, path, junk))))
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change has taken that place away
        held, raw = read_snapshot(patched, (raw, held)), patched
        assert repr(held) == repr(read_snapshot(patched))


def test_what_a_patch_does_not_touch_is_not_read_again() -> None:
    raw = without_nulls(WHOLE)
    held = read_snapshot(raw)
    patched = apply(raw, {"datasets": {"B1_glaive": {"tokens": 200}}})
    after = read_snapshot(patched, (raw, held))
    assert after.datasets[0].tokens == 200
    assert after.engine is held.engine and after.gpus is held.gpus


def test_a_wrong_type_is_noted_by_its_place() -> None:
    snapshot = read_snapshot(put(WHOLE, ("datasets", "B1_glaive", "tokens"), "many"))
    assert snapshot.datasets[0].tokens is None
    assert snapshot.misread == ("snapshot.datasets.B1_glaive.tokens should be a whole number, not 'many'",)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recorded_snapshots_are_understood(path: Path) -> None:
    snapshot = read_snapshot(json.loads(path.read_text()))
    assert snapshot.misread == ()
    SCHEMA.validate(json.loads(json.dumps(status_json(whole_view(snapshot)))))


def test_before_the_first_look_the_json_has_every_key() -> None:
    blind = View(now=5.0, link=Link(LinkState.FAILED, "t", error="refused"), options=Options())
    said = status_json(blind)
    SCHEMA.validate(said)
    assert said["at"] is None and said["datasets"] == [] and said["link"]["state"] == "failed"
    assert check_status(blind) == 3


@pytest.mark.parametrize(
    ("level", "acked", "status"), [("critical", "", 2), ("warning", "", 1), ("note", "", 0), ("critical", "bob", 0)]
)
def test_a_check_ends_with_the_loudest_open_alert(level: str, acked: str, status: int) -> None:
    alert = Alert("disk", "disk", Level(level), 5.0, "sentence", acked_by=acked)
    live = View(5.0, Link(LinkState.LIVE), Options(), read_snapshot(WHOLE), alerts=(alert,))
    assert check_status(live) == status
    assert check_status(dataclasses.replace(live, link=Link(LinkState.STALE))) == 3
