"""A view that comes while the application leaves: the screen is still there, what was on it is not."""

from __future__ import annotations

import pytest

from console.screens.base import ConsoleScreen
from tests.ui.driving import running


@pytest.mark.parametrize("gone", ["#top", "#keys"])
async def test_a_view_that_comes_too_late_is_no_failure(gone: str) -> None:
    async with running() as (app, _, _):
        screen = app.screen
        assert isinstance(screen, ConsoleScreen)
        await screen.query_one(gone).remove()
        screen.refresh_view()
        assert screen.is_current
    assert app.return_code in (0, None)
