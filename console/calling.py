"""Calls an operator who looks elsewhere: the terminal's bell, and its desktop notification where there is one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from textual.app import App

from console.view import Alert, Level, View
from remote.text import clean


class Caller:
    """Tells of each alert that becomes critical while one looks on; what was so at the start is on the screen already."""

    def __init__(self) -> None:
        self._target: str | None = None
        self._before: tuple[Alert, ...] = ()

    def due(self, view: View) -> Alert | None:
        """The loudest alert to call for after this view, if there is a new one. Acknowledged ones call nobody."""
        before, self._before = self._before, view.alerts
        if self._target != view.link.target:
            # Another target: its alerts are new to this object, not to the world. Nor is a first look complete at once.
            if view.snapshot is not None and not view.snapshot.pending:
                self._target = view.link.target
            return None
        # Here, for the first paint need not wait for it: by the first look the rules are loaded anyway.
        from console.alerts import EventKind, events

        told = [event.alert for event in events(before, view.alerts) if event.kind is not EventKind.RECOVERED]
        return next((alert for alert in told if alert.level is Level.CRITICAL and not alert.acked_by), None)

    def call(self, app: App[Any], view: View) -> None:
        """Ring for what is due; without the focus, tell the desktop too."""
        alert = self.due(view)
        if alert is None:
            return
        app.bell()
        # The driver is private to Textual: it has no public way to a sequence of the terminal's own.
        driver = app._driver
        if not app.app_focus and not app.is_web and driver is not None:
            driver.write(desktop_notification(alert, view.link.target, os.environ))


def desktop_notification(alert: Alert, target: str, environment: Mapping[str, str]) -> str:
    """The sequence that has the terminal notify the desktop: OSC 777 for foot and rxvt, else OSC 9; empty where neither can work.

    tmux passes neither on (its bell does reach the terminal), and the Linux console would print them.
    """
    term = environment.get("TERM", "")
    if environment.get("TMUX") or term.startswith(("screen", "tmux", "linux", "dumb")):
        return ""
    words = clean(f"{target}: {alert.sentence}", 200).replace(";", ",")
    if term.startswith(("foot", "rxvt")):
        return f"\x1b]777;notify;eagle3-console;{words}\x1b\\"
    return f"\x1b]9;eagle3-console {words}\x1b\\"
