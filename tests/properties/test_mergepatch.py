"""The merge patch carries any change of a snapshot: what is applied is what was sent."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from remote.mergepatch import apply, diff, same, without_nulls

SCALARS = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, 1.5]) | st.sampled_from(["", "a", "é"])
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)


@given(OBJECTS, OBJECTS)
def test_applying_the_difference_gives_the_new_object(old: dict[str, Any], new: dict[str, Any]) -> None:
    old, new = without_nulls(old), without_nulls(new)
    kept = copy.deepcopy(old)
    patch = json.loads(json.dumps(diff(old, new)))
    assert same(apply(old, patch), new)
    assert same(old, kept), "the old object is left alone"


@given(OBJECTS)
def test_nothing_changed_is_an_empty_patch(value: dict[str, Any]) -> None:
    value = without_nulls(value)
    assert diff(value, copy.deepcopy(value)) == {}


@given(OBJECTS, OBJECTS, OBJECTS)
def test_patches_follow_one_another(first: dict[str, Any], second: dict[str, Any], third: dict[str, Any]) -> None:
    first, second, third = map(without_nulls, (first, second, third))
    there = apply(apply(first, diff(first, second)), diff(second, third))
    assert same(there, third)


def test_only_what_changed_is_in_the_patch() -> None:
    old = {"datasets": {"B1": {"tokens": 1, "state": "running"}, "B2": {"tokens": 5}}, "at": 1}
    new = {"datasets": {"B1": {"tokens": 2, "state": "running"}, "B2": {"tokens": 5}}, "at": 1}
    assert diff(old, new) == {"datasets": {"B1": {"tokens": 2}}}


def test_true_is_not_one() -> None:
    assert diff({"a": 1}, {"a": True}) == {"a": True}
    assert diff({"a": [0]}, {"a": [False]}) == {"a": [False]}
