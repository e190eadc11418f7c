"""What changed between two views, as events for `watch`: each has a sentence for people and values for scripts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from console import text
from console.alerts import EventKind, events
from console.model import Dataset, Snapshot
from console.status_json import alert_json, dataset_json, link_json
from console.view import LinkState, View

VERSION = 1
"""Of a line of `watch --json`; docs/json.md is the reference."""
PROGRESS_EVERY_S = 60.0
_EVENT_WORDS = {EventKind.RAISED: "begins", EventKind.WORSE: "got worse", EventKind.RECOVERED: "is over"}


@dataclass(frozen=True)
class Event:
    """One change. `kind`: link, generator, dataset, progress, writer, alert or audit; `values` is JSON."""

    kind: str
    sentence: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self, at: float) -> dict[str, Any]:
        """The object of one line of `watch --json`; `at` is our own clock."""
        return {"version": VERSION, "at": round(at, 3), "event": self.kind, "sentence": self.sentence, **self.values}


class Watcher:
    """Turns one view after the other into events; progress at most once a minute for each dataset."""

    def __init__(self) -> None:
        self._before: View | None = None
        self._told_at: dict[str, float] = {}

    def step(self, view: View) -> list[Event]:
        """The events between the view before and this one; the first view is told whole."""
        before, self._before = self._before, view
        found = list(_link(before, view))
        if view.snapshot is not None:
            earlier = before.snapshot if before is not None else None
            found += _processes(earlier, view.snapshot)
            found += self._datasets(before, view)
            found += _audit(earlier, view.snapshot)
        if before is not None:
            for event in events(before.alerts, view.alerts):
                words = f"{event.alert.level.value} {_EVENT_WORDS[event.kind]}: {event.alert.sentence}"
                found.append(Event("alert", words, {"change": event.kind.value, "alert": alert_json(event.alert)}))
        else:
            for alert in view.alerts:
                found.append(
                    Event(
                        "alert",
                        f"{alert.level.value}: {alert.sentence}",
                        {"change": "raised", "alert": alert_json(alert)},
                    )
                )
        return found

    def _datasets(self, before: View | None, view: View) -> Iterator[Event]:
        assert view.snapshot is not None
        for row in view.snapshot.datasets:
            old = before.snapshot.dataset(row.folder) if before is not None and before.snapshot is not None else None
            values = {"dataset": dataset_json(view, row)}
            if old is None or old.state != row.state:
                self._told_at[row.folder] = view.now
                was = f" (was {old.state})" if old is not None else ""
                yield Event("dataset", f"{row.id} {row.state}{was}: {_figures(view, row)}", values)
            elif old.schema.unusable != row.schema.unusable:
                yield Event("dataset", f"{row.id} has {text.count(row.schema.unusable)} unusable records", values)
            elif old.tokenized != row.tokenized:
                yield Event("dataset", f"{row.id} tokenized: {text.count(row.tokenized)} rows", values)
            elif old.responses != row.responses and view.now - self._told_at.get(row.folder, 0.0) >= PROGRESS_EVERY_S:
                self._told_at[row.folder] = view.now
                yield Event("progress", f"{row.id} {_figures(view, row)}", values)


def _figures(view: View, row: Dataset) -> str:
    parts = [f"{text.count(row.responses)} answers, {text.tokens(row.tokens)} tokens"]
    if row.budget:
        parts.append(f"{text.percent(row.tokens, row.budget)} of its budget")
    rate = view.rate_of(row)
    if rate is not None:
        parts.append(text.rate(rate))
    return ", ".join(parts)


def _link(before: View | None, view: View) -> Iterator[Event]:
    if before is not None and before.link.state is view.link.state:
        return
    words = view.link.state.value
    if view.link.error and view.link.state is not LinkState.LIVE:
        words += f": {view.link.error}"
    yield Event("link", f"link {words}", {"link": link_json(view.link)})


def _processes(before: Snapshot | None, now: Snapshot) -> Iterator[Event]:
    generator, old = now.generator, before.generator if before is not None else None
    if old is None or (old.verdict, old.pid, old.paused) != (generator.verdict, generator.pid, generator.paused):
        words = f"generator {generator.verdict}"
        words += f", pid {generator.pid}" if generator.running else ""
        words += ", paused" if generator.paused else ""
        words += f": {generator.exit.reason}" if generator.exit is not None and not generator.running else ""
        yield Event(
            "generator", words, {"verdict": generator.verdict, "pid": generator.pid, "run_id": generator.run_id}
        )
    known = {writer.pid for writer in before.writers} if before is not None else set()
    present = {writer.pid for writer in now.writers}
    for writer in now.writers:
        if writer.pid not in known:
            words = f"pid {writer.pid}, not launched by this console, writes {', '.join(writer.datasets) or 'here'}"
            yield Event("writer", words, {"pid": writer.pid, "change": "seen"})
    for pid in known - present:
        yield Event("writer", f"pid {pid} is gone", {"pid": pid, "change": "gone"})


def _audit(before: Snapshot | None, now: Snapshot) -> Iterator[Event]:
    if before is None:
        return
    last = max((entry.at or 0.0 for entry in before.audit), default=0.0)
    for entry in now.audit:
        if (entry.at or 0.0) > last:
            words = " ".join(part for part in (entry.who, entry.action, entry.outcome, entry.detail) if part)
            yield Event("audit", words, {"who": entry.who, "action": entry.action, "outcome": entry.outcome})
