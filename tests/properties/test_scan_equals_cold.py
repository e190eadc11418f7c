"""Whatever happens to the files, the scan that remembers says what a scan that looks for the first time says."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from remote.records import Rules
from remote.scan import Scanner, scan_root
from tests.support.scan_events import FOLDERS, Event, comparable, events

RULES = Rules(eos_ids=frozenset({163_586}))
EVERYTHING = 1 << 40

RESTART = "restart"
"""A new process takes the memory over from the index."""

steps = st.lists(st.one_of(events, events, events, events, st.just((RESTART, None))), min_size=2, max_size=14)


@settings(max_examples=60, deadline=None)
@given(steps)
def test_any_sequence_of_events(happened: list[tuple[str, Event | None]]) -> None:
    _follow(happened)


@pytest.mark.soak
@settings(max_examples=3000, deadline=None)
@given(st.lists(st.one_of(events, events, events, events, st.just((RESTART, None))), min_size=2, max_size=30))
def test_many_long_sequences_of_events(happened: list[tuple[str, Event | None]]) -> None:
    _follow(happened)


def _follow(happened: list[tuple[str, Event | None]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "prepared"
        index = Path(place) / "index.json"
        for folder in FOLDERS:
            (root / folder).mkdir(parents=True)
        scanner = Scanner(root, RULES, index)
        scanner.poll()
        for words, event in happened:
            note(words)
            if event is None:
                assert scanner.save()
                scanner = Scanner(root, RULES, index)
            else:
                event(root)
            found = scanner.poll()
            if words.startswith("_edit_and_append"):
                scanner.background(EVERYTHING)
                found = scanner.poll()
            assert scanner.index_error is None
            assert comparable(found) == comparable(scan_root(root, RULES))


@settings(max_examples=25, deadline=None)
@given(st.lists(events, min_size=2, max_size=10))
def test_events_between_two_looks(happened: list[tuple[str, Event]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        for folder in FOLDERS:
            (root / folder).mkdir()
        scanner = Scanner(root, RULES)
        half = len(happened) // 2
        for words, event in happened[:half]:
            note(words)
            event(root)
        before = scanner.poll()
        kept = comparable(before)
        for words, event in happened[half:]:
            note(words)
            event(root)
        scanner.poll()
        scanner.background(EVERYTHING)
        assert comparable(scanner.poll()) == comparable(scan_root(root, RULES))
        # What was handed out before stays what it was, whatever came later.
        assert comparable(before) == kept
