"""Which dataset gets the next free place of the engine: pure, the clock is passed in.

Stopping when the sum passes the budget would throw away what is in flight and keep the short answers, because the long
ones still run. So a dataset stops *admitting* when its tokens and what is expected of its answers in flight reach the
budget; those finish, all are kept, and it admits a few more while it is short. A place that is free goes to the earliest
dataset that still admits: while one drains, the next one fills.

As long as a later dataset can take the place, a dataset stops earlier still, by how uncertain its answers in flight are:
what is missing then is admitted when they have ended and little is left to guess. No place waits for that.

The run and the simulated bench use this code and no other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from remote.lengths import Curve, Lengths

_SPEED_MEMORY = 0.98
"""How much of the measured speed each further answer leaves: about the last fifty answers count."""
_REDRAW = 50
"""A dataset's curve of lengths is drawn anew when one of so many answers is new: O(1) an answer, in the long run."""
_LOOK_AGAIN = 0.1
"""A dataset that is short by N answers is reckoned again after a tenth of them: near its budget, at every admission."""

_CAUTION = 1.0
"""How many standard deviations below its budget a dataset pauses while later ones can take its places."""
_HASTE = 0.7
"""How many above its budget one admits while a place would else stand idle: what is found missing at the very end is made
by a few answers on an empty engine."""


def name_of(folder: str, key: str) -> str:
    """What names a prompt across datasets."""
    return f"{folder}\0{key}"


@dataclass
class Ticket:
    """One admitted answer: when it was sent (s), and the most tokens it may have."""

    folder: str
    sent_at: float
    limit: int


@dataclass
class Track:
    """What admission knows of one dataset: `left` prompts may still be admitted; a `budget` of 0 is none."""

    folder: str
    budget: int
    tokens: int
    left: int
    lengths: Lengths
    in_flight: dict[str, Ticket] = field(default_factory=dict)
    free_admissions: int = 0
    """Admissions that are certain to stay below the budget, from the last reckoning."""
    curve: Curve | None = None
    """The lengths that are expected of its answers, as drawn when `drawn_at` answers of the run had ended."""
    drawn_at: int = 0

    @property
    def short(self) -> bool:
        """Whether its tokens are below its budget; without a budget, always."""
        return self.budget == 0 or self.tokens < self.budget

    @property
    def finished(self) -> bool:
        """Nothing in flight, and either the budget reached or no prompt left."""
        return not self.in_flight and (not self.short or self.left <= 0)


class Admission:
    """Places, datasets in their order, and what is in flight.

    `longest` is the run's limit of one answer in tokens. Every `now` is seconds on one clock that does not go back.
    """

    def __init__(self, concurrency: int, tracks: Iterable[Track], longest: int) -> None:
        self.concurrency = concurrency
        self.tracks = {track.folder: track for track in tracks}
        self.paused = False
        self.everyone = Lengths(longest)
        self._longest = longest
        self._assumed = Curve.assumed(longest)
        self._ended = 0
        self._speed_tokens = 0.0
        self._speed_s = 0.0

    @property
    def in_flight(self) -> int:
        """Answers in flight, all datasets together."""
        return sum(len(track.in_flight) for track in self.tracks.values())

    def names(self) -> set[str]:
        """What names the prompts in flight, across datasets."""
        return {name_of(track.folder, key) for track in self.tracks.values() for key in track.in_flight}

    @property
    def speed_tokens_s(self) -> float | None:
        """Tokens a second of one answer, as measured from sending to its end; None before the first one ended."""
        return self._speed_tokens / self._speed_s if self._speed_s > 0 else None

    def seed_everyone(self, lengths: Iterable[tuple[int, int]]) -> None:
        """Take in (length, times) of records that no track of this run has."""
        for length, times in lengths:
            self.everyone.add(length, times)

    def expected_tokens(self, track: Track, now: float) -> float:
        """What a dataset comes to when everything in flight has ended well."""
        return self._expected(track, now)[0]

    def _expected(self, track: Track, now: float) -> tuple[float, float]:
        """(what a dataset comes to, how far off that may well be): what is still to come of an answer is about as
        uncertain as it is long."""
        curve = self._curve(track, now)
        total, variance = float(track.tokens), 0.0
        for ticket, decoded in zip(track.in_flight.values(), self._decoded(track, now), strict=True):
            length = min(float(ticket.limit), curve.mean_beyond(decoded))
            total += length
            variance += max(0.0, length - decoded) ** 2
        return total, math.sqrt(variance)

    def _decoded(self, track: Track, now: float) -> list[float]:
        """What each of its answers in flight has decoded so far, in tokens: the time since it was sent, at the measured
        speed."""
        speed = self.speed_tokens_s or 0.0
        return [max(0.0, now - ticket.sent_at) * speed for ticket in track.in_flight.values()]

    def _curve(self, track: Track, now: float) -> Curve:
        """The lengths to expect of a dataset, from its own answers and, while those are few, everyone's."""
        known = track.lengths.count + len(track.in_flight)
        if track.curve is None or (self._ended - track.drawn_at) * _REDRAW > known:
            running = [decoded for other in self.tracks.values() for decoded in self._decoded(other, now)]
            others = self.everyone.curve(running, self._assumed)
            track.curve, track.drawn_at = track.lengths.curve(self._decoded(track, now), others), self._ended
        return track.curve

    def admits(self, track: Track, now: float, cautious: bool = False) -> bool:
        """Whether a dataset would take a further answer; `cautious` when somebody else can take the place."""
        if track.left <= 0 or not track.short:
            return False
        if track.budget == 0 or track.free_admissions > 0:
            return True
        expected, spread = self._expected(track, now)
        missing = track.budget - expected - spread * (_CAUTION if cautious else -_HASTE)
        if missing <= 0:
            return False
        answer = min(float(self._longest), self._curve(track, now).mean_beyond(0.0))
        track.free_admissions = max(1, int(missing / answer * _LOOK_AGAIN))
        return True

    def next(self, now: float) -> str | None:
        """The dataset that gets the next place; None when no place is free or nobody admits."""
        if self.paused or self.in_flight >= self.concurrency:
            return None
        for cautious in (True, False):
            for track in self.tracks.values():
                if self.admits(track, now, cautious):
                    return track.folder
        return None

    def admit(self, folder: str, key: str, now: float, limit: int) -> None:
        """A prompt takes a place; `limit` is the most tokens its answer may have."""
        track = self.tracks[folder]
        track.left -= 1
        track.free_admissions = max(0, track.free_admissions - 1)
        track.in_flight[key] = Ticket(folder, now, limit)

    def sent(self, folder: str, key: str, now: float, limit: int) -> None:
        """An attempt of it goes out now: what an earlier one decoded is gone."""
        ticket = self.tracks[folder].in_flight[key]
        ticket.sent_at, ticket.limit = now, limit

    def kept(self, folder: str, key: str, now: float, tokens: int) -> float:
        """An answer ended well and was kept. Returns when it was sent."""
        track = self.tracks[folder]
        ticket = track.in_flight.pop(key)
        track.tokens += tokens
        track.lengths.add(tokens)
        self.everyone.add(tokens)
        self._ended += 1
        self._speed_tokens = self._speed_tokens * _SPEED_MEMORY + tokens
        self._speed_s = self._speed_s * _SPEED_MEMORY + max(now - ticket.sent_at, 1e-6)
        return ticket.sent_at

    def dropped(self, folder: str, key: str, back: bool = False) -> None:
        """A prompt gave its place up without an answer; `back` when it may be admitted again."""
        track = self.tracks[folder]
        del track.in_flight[key]
        track.left += 1 if back else 0
        track.free_admissions = 0

    def set_budget(self, folder: str, budget: int) -> None:
        """A new budget, from the next admission on."""
        track = self.tracks[folder]
        track.budget, track.free_admissions = budget, 0

    @property
    def finished(self) -> bool:
        """Whether every dataset is finished."""
        return all(track.finished for track in self.tracks.values())
