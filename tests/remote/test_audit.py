"""What was done is kept and read, by many at once and after a torn write; no secret is kept with it."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remote import audit
from remote.appended import append_line, read_backwards
from remote.errors import OperatorError
from remote.history import append_history, history_row, read_history
from remote.layout import Layout

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(st.text(max_size=8), JSON, max_size=4), max_size=30), st.binary(max_size=200))
def test_whatever_is_appended_is_read_newest_first_past_any_damage(
    tmp_path_factory: pytest.TempPathFactory, values: list[dict[str, object]], junk: bytes
) -> None:
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    half = len(values) // 2
    for value in values[:half]:
        append_line(path, value, durable=False)
    damage = b"\n" + junk.replace(b"{", b"(")
    with path.open("ab") as file:
        file.write(damage)
    for value in values[half:]:
        append_line(path, value, durable=False)
    assert list(read_backwards(path)) == values[::-1]


def test_long_lines_and_long_logs_are_read_from_the_end(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    values: list[dict[str, object]] = [{"n": n, "plan": "x" * (n * 997 % 200_000)} for n in range(60)]
    for value in values:
        append_line(path, value, durable=False)
    assert list(read_backwards(path)) == values[::-1]
    assert next(read_backwards(path)) == values[-1]
    assert list(read_backwards(tmp_path / "none")) == []


def _append(path: str, name: int) -> None:
    for number in range(50):
        append_line(Path(path), {"who": name, "n": number, "pad": "x" * 9000}, durable=False)


def test_writers_at_once_never_mix_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=_append, args=(str(path), name)) for name in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    for name in range(4):
        assert [line["n"] for line in lines if line["who"] == name] == list(range(50))


def test_a_full_disk_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.jsonl"
    append_line(path, {"n": 1})
    before = path.read_bytes()
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[: len(data) // 2]))
    with pytest.raises(OSError, match="No space left"):
        append_line(path, {"n": 2})
    monkeypatch.undo()
    assert path.read_bytes() == before


def test_an_entry_says_who_what_and_why_and_no_secret(layout: Layout) -> None:
    secret = "hunter2-and-more"
    options = {"notify": [f"https://hooks.slack.com/services/T/B/{secret}"], "engine_url": f"http://u:{secret}@host:1/"}
    plan = {"options": options, "writers": [{"argv": ["x"]}], "datasets": [{"id": "B1"}]}
    made = audit.record(
        layout, "ann@laptop", "launch", "running", "pid 7", {"pid": 7}, options, plan, stages=["stopped", "launched"]
    )
    entry = audit.read(layout, 5)[0]
    assert entry == made and entry["who"] == {"user": "ann", "host": "laptop"}
    assert entry["plan"]["datasets"] == [{"id": "B1"}] and entry["stages"] == ["stopped", "launched"]
    assert secret not in layout.audit_jsonl.read_text()
    assert entry["options"]["notify"] == ["https://hooks.slack.com/***"] and "@host:1" in entry["options"]["engine_url"]


def test_two_consoles_see_each_others_actions(layout: Layout) -> None:
    assert audit.read(layout, 10) == []
    audit.record(layout, "ann@laptop", "stop-drain", "stopped")
    assert [entry["who"]["user"] for entry in audit.read(layout, 10)] == ["ann"]
    audit.record(layout, "bob", "launch", "running")
    assert [entry["who"]["user"] for entry in audit.read(layout, 10)] == ["bob", "ann"]
    assert len(audit.read(layout, 1)) == 1 and audit.read(layout, 0) == []
    last = audit.last(layout, "stop-drain", "stop-now")
    assert last is not None and last["who"]["user"] == "ann" and audit.last(layout, "kill") is None


def test_one_that_cannot_be_written_is_said(layout: Layout) -> None:
    layout.make_state()
    layout.audit_jsonl.mkdir()
    with pytest.raises(OperatorError) as refused:
        audit.record(layout, "ann@laptop", "launch", "running")
    assert refused.value.code == "audit" and "audit.jsonl" in refused.value.message
    with pytest.raises(OperatorError, match="cannot read"):
        audit.read(layout, 5)


def test_a_hold_holds_until_its_time_or_until_it_is_cleared(layout: Layout) -> None:
    assert audit.read_hold(layout) is None
    audit.write_hold(layout, "ann@laptop", "extraction reading", until=1000.0)
    hold = audit.read_hold(layout, now=999.0)
    assert hold is not None and (hold["by"], hold["reason"], hold["until"]) == (
        "ann@laptop",
        "extraction reading",
        1000.0,
    )
    assert audit.read_hold(layout, now=1000.0) is None
    audit.write_hold(layout, "bob@desk", "until I am back")
    assert audit.read_hold(layout, time.time() + 1e9) is not None
    audit.clear_hold(layout, "ann@laptop")
    audit.clear_hold(layout, "ann@laptop")
    assert audit.read_hold(layout) is None
    said = [(entry["action"], entry["outcome"], entry["who"]["user"]) for entry in audit.read(layout, 9)]
    assert said == [("hold", "cleared", "ann"), ("hold", "set", "bob"), ("hold", "set", "ann")]
    layout.hold_json.write_text("{")
    damaged = audit.read_hold(layout)
    assert damaged is not None and "hold.json" in damaged["reason"], "somebody wanted nothing started"
    with pytest.raises(OperatorError, match="reason"):
        audit.write_hold(layout, "ann@laptop", "  ")


def test_acknowledgements_and_notes(layout: Layout) -> None:
    audit.acknowledge(layout, "ann@laptop", "disk:low", "ordered more")
    acks = audit.acknowledge(layout, "bob@desk", "gpu:idle")
    assert list(acks) == ["disk:low", "gpu:idle"] and audit.read_acks(layout) == acks
    assert audit.read_acks(layout)["disk:low"]["by"] == "ann@laptop"
    assert list(audit.unacknowledge(layout, "disk:low")) == ["gpu:idle"]
    layout.acks_json.write_text("[1")
    assert audit.read_acks(layout) == {}
    audit.acknowledge(layout, "ann@laptop", "again")
    note = audit.add_note(layout, "ann@laptop", "line one\nline two \x1b[31m")
    assert "\x1b" not in note["detail"] and audit.read(layout, 1) == [note]
    with pytest.raises(OperatorError, match="empty"):
        audit.add_note(layout, "ann@laptop", " \n")
    for number in range(audit.MAX_ACKS + 5):
        if number % 100 == 0 or number > audit.MAX_ACKS:
            audit.acknowledge(layout, "a", f"k{number}")
    assert len(audit.read_acks(layout)) <= audit.MAX_ACKS


def test_history_is_a_line_a_minute_and_read_since(layout: Layout) -> None:
    layout.make_state()
    progress = {
        "datasets": {"B2_opencodeinstruct": {"rate_tokens_s": 590.0, "tokens": 10_700_000}, "bad": 3},
        "rate_tokens_s": 590.0,
        "in_flight": 64,
        "engine_state": "healthy",
    }
    gpu = {
        "index": 0,
        "name": "x",
        "utilisation": 97.0,
        "memory_used_bytes": 1,
        "temperature_c": 60.0,
        "power_w": 500.0,
    }
    for minute in range(5):
        append_history(layout, history_row(minute * 60.0, "r", progress, {"rows": [gpu]}))
    append_history(layout, history_row(300.0, "r", {}, {"rows": [], "detail": "none"}))
    rows = read_history(layout, 120.0)
    assert [row["at"] for row in rows] == [180.0, 240.0, 300.0]
    assert rows[0]["rates"] == {"B2_opencodeinstruct": 590.0} and rows[0]["tokens"] == {
        "B2_opencodeinstruct": 10_700_000
    }
    assert rows[0]["gpus"][0]["utilisation"] == 97.0 and "name" not in rows[0]["gpus"][0]
    assert (rows[-1]["in_flight"], rows[-1]["engine"], rows[-1]["rates"], rows[-1]["gpus"]) == (None, None, {}, [])
    assert read_history(Layout(layout.root / "none"), 0.0) == []
