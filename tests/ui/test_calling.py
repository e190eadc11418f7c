"""A new critical alert rings the bell, once; when the terminal has lost the focus its desktop is told too."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual import events

from console.app import ConsoleApp
from console.calling import Caller, desktop_notification
from console.view import Alert, Level, View
from tests.support.recorded import snapshot_json, view_of
from tests.ui.driving import running
from tests.ui.scenes import settle

ALERT = Alert("process-died", "process-died", Level.CRITICAL, 100.0, "the generator died; \x1b]0;x\x07 7 left")


def with_alerts(view: View, *alerts: Alert) -> View:
    return replace(view, alerts=alerts)


async def test_the_bell_rings_once_for_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    rung: list[str] = []
    monkeypatch.setattr(ConsoleApp, "bell", lambda self: rung.append("bell"))
    async with running("running") as (app, pilot, fake):
        monkeypatch.setattr(app._driver, "write", rung.append)
        quiet = with_alerts(fake.view)
        for view in (quiet, with_alerts(quiet, ALERT), with_alerts(quiet, ALERT)):
            fake.publish(view)
            await settle(pilot)
        assert rung == ["bell"]

        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.delenv("TMUX", raising=False)
        app.post_message(events.AppBlur())
        await settle(pilot)
        rung.clear()
        for view in (quiet, with_alerts(quiet, replace(ALERT, key="disk"))):
            fake.publish(view)
            await settle(pilot)
        assert rung[0] == "bell" and rung[1].startswith("\x1b]9;eagle3-console ")


def test_neither_what_was_so_at_first_nor_another_targets_alerts_call() -> None:
    caller, view = Caller(), view_of(snapshot_json("running"))
    assert caller.due(with_alerts(view, ALERT)) is None
    assert caller.due(with_alerts(view, ALERT, replace(ALERT, key="b", acked_by="ann"))) is None
    assert caller.due(with_alerts(view, ALERT, replace(ALERT, key="c", level=Level.WARNING))) is None
    assert caller.due(with_alerts(view, ALERT, replace(ALERT, key="c"))) == replace(ALERT, key="c")
    elsewhere = replace(view, link=replace(view.link, target="another"))
    assert caller.due(with_alerts(elsewhere, replace(ALERT, key="d"))) is None


@pytest.mark.parametrize(
    ("environment", "begins"),
    [
        ({"TERM": "xterm-256color"}, "\x1b]9;"),
        ({"TERM": "foot"}, "\x1b]777;notify;"),
        ({"TERM": "xterm-256color", "TMUX": "/tmp/x"}, ""),
        ({"TERM": "linux"}, ""),
    ],
)
def test_the_notification_is_one_clean_sequence(environment: dict[str, str], begins: str) -> None:
    said = desktop_notification(ALERT, "gpu;7", environment)
    assert said.startswith(begins) and bool(said) == bool(begins)
    inner = said.removeprefix("\x1b]").removesuffix("\x1b\\")
    assert "\x1b" not in inner and "\x07" not in inner and "7 left" in (inner or "7 left")
