"""What every test shares: under `.ci/run` (EAGLE3_CI=1) a skip is a failure, since it installs all that tests need."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest
from hypothesis import settings

# A test asserts no times: a busy neighbour makes any example slow.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

IN_CI = os.environ.get("EAGLE3_CI") == "1"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure where nothing may be missing."""
    report = yield
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, which is a failure here: {reason}"
    return report
