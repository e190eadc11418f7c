"""Whatever begins, gets worse, ends, fails to be posted or is interrupted: an address hears each thing once, in order."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from console.alerts import EventKind
from console.ledger import INHERITED_GRACE_S, Due, Ledger, read_told
from console.view import Alert, Level, Link, LinkState, View
from tests.support.recorded import snapshot_json, view_of

KEYS = ("a", "b", "c")
BASE = view_of(snapshot_json("running"))
SNAPSHOT = replace(BASE.snapshot, pending=()) if BASE.snapshot is not None else None

alerts = st.builds(
    lambda key, level, acked: Alert(key, key, level, 100.0, f"{key} is wrong", acked_by="ann" if acked else ""),
    st.sampled_from(KEYS),
    st.sampled_from(Level),
    st.booleans(),
)
steps = st.lists(
    st.tuples(
        st.lists(alerts, max_size=3, unique_by=lambda alert: alert.key),
        st.booleans(),  # the link is fresh
        st.booleans(),  # the address takes posts
        st.sampled_from(["", "", "", "restart", "pending"]),
    ),
    max_size=30,
)


def view(found: list[Alert], fresh: bool = True, pending: tuple[str, ...] = ()) -> View:
    assert SNAPSHOT is not None
    link = Link(LinkState.LIVE if fresh else LinkState.STALE)
    return replace(BASE, link=link, alerts=tuple(found), snapshot=replace(SNAPSHOT, pending=pending))


def restarted(ledger: Ledger) -> Ledger:
    """As another process finds it."""
    return Ledger(read_told(json.loads(json.dumps(ledger.to_json()))))


@given(steps)
def test_an_address_hears_each_thing_once_and_in_order(moments: list[tuple[list[Alert], bool, bool, str]]) -> None:
    ledger, heard, now_s = Ledger(), list[Due](), 0.0
    for found, fresh, takes, event in moments:
        now_s += INHERITED_GRACE_S
        if event == "restart":
            ledger = restarted(ledger)
        for due in ledger.due(view(found, fresh, ("gpus",) if event == "pending" else ()), now_s):
            if not takes:
                break
            ledger.mark(due)
            heard.append(due)
    for key in KEYS:
        known: Level | None = None
        for due in (due for due in heard if due.key == key):
            assert (due.kind is EventKind.RAISED) == (known is None)
            if due.kind is EventKind.WORSE:
                assert known is not None and due.level.rank > known.rank
            known = None if due.kind is EventKind.RECOVERED else due.level
            assert due.level is not Level.NOTE
    # Once it is quiet, and the address answers, everything that was told is taken back, and nothing is left to say.
    ledger.due(view([]), now_s)
    for due in ledger.due(view([]), now_s + INHERITED_GRACE_S):
        assert due.kind is EventKind.RECOVERED
        ledger.mark(due)
    assert not ledger.told and not ledger.due(view([]), now_s + 2 * INHERITED_GRACE_S)


@given(st.lists(alerts, max_size=3, unique_by=lambda alert: alert.key))
def test_what_is_acknowledged_or_a_note_is_no_news_and_the_rest_is(found: list[Alert]) -> None:
    told = {due.key for due in Ledger().due(view(found), 0.0)}
    assert told == {alert.key for alert in found if not alert.acked_by and alert.level is not Level.NOTE}


def test_a_restarted_watch_waits_before_it_calls_something_over() -> None:
    ledger, alert = Ledger(), Alert("a", "a", Level.CRITICAL, 100.0, "a is wrong")
    for due in ledger.due(view([alert]), 0.0):
        ledger.mark(due)
    ledger = restarted(ledger)
    assert ledger.due(view([]), 10.0) == [], "its alert may only not be raised yet"
    assert ledger.due(view([alert]), 20.0) == [], "it was told by the watch before"
    (over,) = ledger.due(view([]), 30.0)
    assert over.kind is EventKind.RECOVERED, "this watch has seen it itself, and it is gone"


def test_the_id_of_a_repetition_is_the_same_and_of_another_thing_is_not() -> None:
    alert = Alert("a", "a", Level.WARNING, 100.0, "a is wrong")
    (first,) = Ledger().due(view([alert]), 0.0)
    (again,) = Ledger().due(view([alert]), 5.0)
    (worse,) = Ledger().due(view([replace(alert, level=Level.CRITICAL)]), 5.0)
    (later,) = Ledger().due(view([replace(alert, since=900.0)]), 5.0)
    assert first.ident("here") == again.ident("here")
    assert len({due.ident("here") for due in (first, worse, later)} | {first.ident("there")}) == 4
