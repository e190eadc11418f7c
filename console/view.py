"""What the screens and the headless commands are given: a snapshot, and what only time and the link can tell.

A `View` is a frozen value made by the controller; nobody changes it, everybody may keep it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from console.empty import EMPTY
from remote.options import Options

if TYPE_CHECKING:
    from console.model import Dataset, Snapshot


class LinkState(StrEnum):
    """Where the link to the container stands."""

    CONNECTING = "connecting"
    LIVE = "live"
    STALE = "stale"
    """Connected as far as we know, but nothing has come for some seconds."""
    RECONNECTING = "reconnecting"
    FAILED = "failed"
    """It cannot be mended by trying again; an operator must change something."""
    UNKNOWN_KEY = "unknown-key"
    CHANGED_KEY = "changed-key"
    CLOSED = "closed"


@dataclass(frozen=True)
class Link:
    """The link's state. Seconds; `next_try_at` and `last_seen_at` are on our own wall clock.

    `skew_s` is the container's clock minus ours. `error` is the sentence of the last failure,
    `remedy` what to do about it, `code` its stable name.
    """

    state: LinkState = LinkState.CONNECTING
    target: str = ""
    stage: str = ""
    attempt: int = 0
    next_try_at: float | None = None
    last_seen_at: float | None = None
    age_s: float | None = None
    skew_s: float | None = None
    round_trip_s: float | None = None
    code: str = ""
    error: str = ""
    remedy: str = ""

    @property
    def fresh(self) -> bool:
        """Whether what is shown may be called live."""
        return self.state is LinkState.LIVE


class Level(StrEnum):
    """How loud an alert is."""

    NOTE = "note"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """0 for a note, 2 for critical: sorts."""
        return (Level.NOTE, Level.WARNING, Level.CRITICAL).index(self)


@dataclass(frozen=True)
class Alert:
    """Something an operator should know. `key` identifies it across time and for acknowledgements.

    `since` is on the container's clock; `next_step` is a plain phrase, `press` the key that does it.
    """

    key: str
    code: str
    level: Level
    since: float
    sentence: str
    next_step: str = ""
    press: str = ""
    dataset: str | None = None
    acked_by: str = ""


@dataclass(frozen=True)
class Rate:
    """Measured speed of one dataset. `source` says how it was measured: `counted` or `progress`."""

    tokens_s: float
    source: str


@dataclass(frozen=True)
class Totals:
    """The last line of the table; None where a part is unknown."""

    tokens: int | None = None
    budget: int | None = None
    budgeted_tokens: int | None = None
    """Of each dataset no more than its budget: what one is past it fills no other."""
    responses: int | None = None
    prompts: int | None = None
    rate_tokens_s: float | None = None
    eta_s: float | None = None
    needless_tokens: int | None = None


@dataclass(frozen=True)
class View:
    """One moment. `now` is our own wall clock when it was made; `snapshot` is None before the first one.

    `eta_s` counts from `now` until the dataset reaches its budget, queueing included; a folder
    that is not in it has no time that can be told.
    """

    now: float
    link: Link
    options: Options
    snapshot: Snapshot | None = None
    rates: Mapping[str, Rate] = field(default_factory=lambda: EMPTY)
    eta_s: Mapping[str, float] = field(default_factory=lambda: EMPTY)
    totals: Totals = Totals()
    alerts: tuple[Alert, ...] = ()

    @property
    def container_now(self) -> float:
        """The container's clock at `now`, by the measured skew."""
        return self.now + (self.link.skew_s or 0.0)

    def age_s(self, at: float | None) -> float | None:
        """How long ago something happened on the container; never negative, None when unknown."""
        return None if at is None else max(0.0, self.container_now - at)

    def rate_of(self, row: Dataset) -> float | None:
        """Tokens a second of one dataset, None when it is not being answered or not yet measured."""
        rate = self.rates.get(row.folder)
        return rate.tokens_s if rate is not None else None

    @property
    def worst(self) -> Level | None:
        """The loudest alert that nobody has acknowledged."""
        open_ones = [alert.level for alert in self.alerts if not alert.acked_by]
        return max(open_ones, key=lambda level: level.rank, default=None)

    @property
    def can_act(self) -> bool:
        """Whether an action that changes something can work now."""
        return self.link.fresh and not self.options.read_only


class ControllerLike(Protocol):
    """What screens and actions know of a controller; a fake fed with recorded snapshots has the same shape."""

    @property
    def view(self) -> View:
        """The latest view."""
        ...

    def subscribe(self, callback: Callable[[View], None]) -> Callable[[], None]:
        """Call back with each new view, at most a few times a second; returns what ends it."""
        ...

    async def call(self, method: str, params: Mapping[str, Any] | None = None, timeout_s: float = 20.0) -> Any:
        """One request to the agent. Raises OperatorError, also when the link is down or the time is up."""
        ...

    def reconnect_now(self) -> None:
        """Try again at once instead of waiting for the backoff."""
        ...

    async def close(self) -> None:
        """End the link within a second; what runs on the container runs on."""
        ...
