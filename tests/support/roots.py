"""Roots of datasets to work on, as fixtures: whatever is launched under one is ended after the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from remote.layout import Layout
from tests.support.runs import end_all
from tests.support.tree import make_tree


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    """An empty root."""
    root = tmp_path / "prepared"
    root.mkdir()
    made = Layout(root)
    yield made
    end_all(made)


@pytest.fixture
def tree(layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root with the small datasets in the middle of their work; the scanner's memory of it ends with the test."""
    cache = tmp_path / "cache"
    cache.mkdir(exist_ok=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return make_tree(layout.root, "mid")
