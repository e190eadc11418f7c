"""What every test shares: under `.ci/run` (EAGLE3_CI=1) a skip is a failure, since it installs all that tests need."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator

import pytest
from hypothesis import settings

# A test asserts no times: a busy neighbour makes any example slow.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

IN_CI = os.environ.get("EAGLE3_CI") == "1"


@pytest.fixture(scope="session", autouse=True)
def signals_as_in_a_terminal() -> Iterator[None]:
    """What the tests start heeds signals, though whoever runs the tests may have been told to ignore them.

    A background job of a script ignores INT, one under nohup HUP, and an ignored signal is inherited through every
    exec. A handler is not: the tests themselves go on ignoring it.
    """
    ignored = [
        number
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM)
        if signal.getsignal(number) is signal.SIG_IGN
    ]
    for number in ignored:
        signal.signal(number, lambda *_: None)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


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
