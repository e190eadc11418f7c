"""Options survive every way they travel: as text on a command line, and as JSON in run.json."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from remote.options import Budget, Options, parse_budget

names = st.from_regex(r"[A-Z][0-9](_[a-z]{1,5})?", fullmatch=True)
tokens = st.one_of(
    st.integers(0, 10**10), st.integers(0, 10**4).map(lambda n: n * 1000), st.integers(0, 99).map(lambda n: n * 10**6)
)
budgets = st.builds(Budget, tokens, st.dictionaries(names, tokens, max_size=4))
options = st.builds(
    Options,
    token_budget=budgets,
    max_samples=st.none() | st.integers(1, 10**6),
    datasets=st.none() | st.lists(names, min_size=1, max_size=3).map(tuple),
    sampling=st.none() | st.dictionaries(st.sampled_from(["temperature", "top_p"]), st.floats(0, 2)),
    shuffle=st.none() | st.integers(),
    drain_s=st.floats(0, 1000),
    accept=st.lists(st.text(min_size=1, max_size=5), max_size=2).map(tuple),
    retry_failed=st.booleans(),
)


@given(budgets)
def test_a_budget_reads_back_from_its_own_text(budget: Budget) -> None:
    assert parse_budget(str(budget)) == budget


@given(options)
def test_options_cross_json_unchanged(value: Options) -> None:
    assert Options.from_json(json.loads(json.dumps(value.to_json()))) == value
