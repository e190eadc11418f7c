"""From findings to alerts: when one is raised, since when it holds, when it is over. Pure.

`console.alert_rules` finds what is wrong in one view; this module adds time, so that nothing
flaps: a finding must last before it is raised, and must be gone for a while before it clears.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from console.alert_rules import find
from console.empty import EMPTY
from console.finding import Finding
from console.thresholds import Thresholds
from console.trends import Trends, watch
from console.view import Alert, LinkState, View

CLEAR_AFTER_S = 15.0
"""How long a finding must be gone before its alert is over."""


@dataclass(frozen=True)
class Track:
    """One finding over time, on our own clock: when it was first and last seen, and whether it was raised."""

    finding: Finding
    first_s: float
    last_s: float
    since: float
    raised: bool


@dataclass(frozen=True)
class AlertHistory:
    """What must be remembered from one view to the next. The first one is empty."""

    tracks: Mapping[str, Track] = field(default_factory=lambda: EMPTY)
    trends: Trends = field(default_factory=Trends)
    looked: bool = False
    """Whether a snapshot has been judged before: what is so at the first look is raised at once."""


def judge(
    view: View, history: AlertHistory, limits: Thresholds, steady_s: float
) -> tuple[AlertHistory, tuple[Alert, ...]]:
    """The alerts of this view, loudest and oldest first, and the history to judge the next one by.

    `steady_s` is a clock of ours that never jumps: how long a finding lasts is measured by it.
    While the link is down, what the container last said still stands: its alerts are kept as
    they were, and only the link's own change.
    """
    fresh = view.link.state is LinkState.LIVE and view.snapshot is not None
    trends = history.trends
    if fresh and view.snapshot is not None:
        trends = watch(trends, view.snapshot, steady_s, limits.gpu_idle_share)
    findings = {finding.key: finding for finding in find(view, trends, limits, steady_s)}
    first_look = fresh and not history.looked
    tracks: dict[str, Track] = {}
    for key, track in history.tracks.items():
        if key in findings:
            continue
        if not fresh and not track.finding.of_link:
            tracks[key] = replace(track, last_s=steady_s)
        elif steady_s - track.last_s < CLEAR_AFTER_S:
            tracks[key] = track
    for key, finding in findings.items():
        known = history.tracks.get(key)
        tracks[key] = _begin(finding, view, steady_s, first_look) if known is None else _go_on(known, finding, steady_s)
    alerts = [_alert(track, view) for track in tracks.values() if track.raised]
    alerts.sort(key=lambda alert: (-alert.level.rank, alert.since, alert.key))
    return AlertHistory(tracks, trends, history.looked or fresh), tuple(alerts)


def _begin(finding: Finding, view: View, steady_s: float, first_look: bool) -> Track:
    since = finding.since if finding.since is not None else view.container_now
    if first_look and finding.since is None and view.snapshot is not None:
        # It may be older than this console: whoever acknowledged it saw it already then.
        since = min([since, *(ack.at for ack in view.snapshot.acks if ack.key == finding.key and ack.at is not None)])
    at_once = finding.lasts_s == 0 or (first_look and finding.at_first_look)
    return Track(finding, steady_s, steady_s, since, at_once)


def _go_on(track: Track, finding: Finding, steady_s: float) -> Track:
    raised = track.raised or steady_s - track.first_s >= finding.lasts_s
    since = finding.since if finding.since is not None else track.since
    return replace(track, finding=finding, last_s=steady_s, raised=raised, since=since)


def _alert(track: Track, view: View) -> Alert:
    finding = track.finding
    acks = view.snapshot.acks if view.snapshot is not None else ()
    # An acknowledgement is for one occurrence: one that is older than the alert was for an earlier one.
    by = next((ack.by or "somebody" for ack in acks if ack.key == finding.key and (ack.at or 0) >= track.since), "")
    return Alert(
        key=finding.key,
        code=finding.code,
        level=finding.level,
        since=track.since,
        sentence=finding.sentence,
        next_step=finding.next_step,
        press=finding.press,
        dataset=finding.dataset,
        acked_by=by,
    )


class EventKind(StrEnum):
    """What happened to an alert between two views."""

    RAISED = "raised"
    WORSE = "worse"
    RECOVERED = "recovered"


@dataclass(frozen=True)
class AlertEvent:
    """One thing to tell somebody: once when it begins, once when it gets worse, once when it is over."""

    kind: EventKind
    alert: Alert


def events(before: tuple[Alert, ...], after: tuple[Alert, ...]) -> tuple[AlertEvent, ...]:
    """What is to be told after the step from one view's alerts to the next one's."""
    old = {alert.key: alert for alert in before}
    new = {alert.key: alert for alert in after}
    told: list[AlertEvent] = []
    for key, alert in new.items():
        if key not in old:
            told.append(AlertEvent(EventKind.RAISED, alert))
        elif alert.level.rank > old[key].level.rank:
            told.append(AlertEvent(EventKind.WORSE, alert))
    told += [AlertEvent(EventKind.RECOVERED, alert) for key, alert in old.items() if key not in new]
    return tuple(told)
