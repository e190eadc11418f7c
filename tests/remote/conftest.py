"""A root to launch under, with everything of it ended afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from remote.layout import Layout
from tests.support.runs import end_all


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    """An empty root."""
    root = tmp_path / "prepared"
    root.mkdir()
    made = Layout(root)
    yield made
    end_all(made)
