"""What the screens ask of the rest: proposals to act, and the list of targets.

A `Proposal` is an action frozen at the key press: what it would do, to which process, and how
it asks. The dialog prints it, and `execute` does exactly what was printed; the container checks
the target's identity once more. Nothing here knows a widget's looks or the link.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from console.model import Dataset, Writer
from console.view import Alert, ControllerLike, Level
from remote.options import Budget, Options
from widgets.stage_list import Stage


class Ask(StrEnum):
    """How a proposal asks before it acts."""

    COUNTDOWN = "countdown"
    """Nothing runs and nothing is warned: a visible countdown starts it, Esc cancels."""
    YES = "yes"
    """Something runs, is warned about or will be killed: `y` is asked."""
    NOTHING = "nothing"
    """It would change nothing: it says so and stops."""
    BLOCKED = "blocked"
    """It cannot be done now; the remarks name the remedy."""


@dataclass(frozen=True)
class Remark:
    """A line under the stages: how loud, and a plain sentence."""

    level: Level
    text: str


@dataclass(frozen=True)
class Choice:
    """One way of doing it (`drain`, `now`, `force`): its word and what it means."""

    id: str
    word: str
    meaning: str


@dataclass(frozen=True)
class Outcome:
    """What came of it. `press` is the key that does what is next, when there is one."""

    ok: bool
    headline: str
    remarks: tuple[Remark, ...] = ()
    press: str = ""


Progress = Callable[[tuple[Stage, ...]], None]
"""Called with all stages whenever one of them has changed."""


@dataclass(frozen=True)
class Proposal:
    """A frozen action. `target` is printed as it was at the key press; `yes` says what `y` does.

    `execute(choice, progress)` gets the id of the chosen `Choice` ("" when there are none) and
    raises `OperatorError` only when nothing at all was done.
    """

    title: str
    target: tuple[str, ...]
    stages: tuple[Stage, ...]
    remarks: tuple[Remark, ...]
    ask: Ask
    yes: str
    execute: Callable[[str, Progress], Awaitable[Outcome]]
    choices: tuple[Choice, ...] = ()
    gist: tuple[str, ...] = ()
    """What it comes to, in a few lines, where the whole is long and stands elsewhere: the trace of a restart."""


class Operations(Protocol):
    """The actions as the screens start them. Everything that can fail raises `OperatorError`."""

    async def restart(self, controller: ControllerLike, options: Options) -> Proposal:
        """Freeze the target, run preflight and trace, and propose a restart."""
        ...

    async def kill(self, controller: ControllerLike, writer: Writer | None) -> Proposal:
        """Propose to kill our generator (None) or a process that was not launched by us."""
        ...

    async def retokenize(self, controller: ControllerLike, options: Options, row: Dataset | None) -> Proposal:
        """Propose to rebuild tokenized_data.jsonl, of one dataset or wherever it is needed."""
        ...

    async def apply_budget(self, controller: ControllerLike, budget: Budget) -> Outcome:
        """Give the running generator another budget."""
        ...

    async def pause(self, controller: ControllerLike, on: bool) -> Outcome:
        """Stop admitting prompts, or go on."""
        ...

    async def ack(self, controller: ControllerLike, alert: Alert) -> Outcome:
        """Mark an alert as seen, for everybody."""
        ...

    async def note(self, controller: ControllerLike, text: str) -> Outcome:
        """Leave a note in the audit."""
        ...

    async def hold(self, controller: ControllerLike, reason: str) -> Outcome:
        """Set the hold with its reason, or lift it with an empty one."""
        ...


@dataclass(frozen=True)
class TargetRow:
    """One target of the list: its name, its address as given, and what is known of it."""

    name: str
    address: str
    read_only: bool = False
    color: str = ""


class Targets(Protocol):
    """The targets one can switch to. A controller is made once and kept, so that switching waits for nobody."""

    @property
    def current(self) -> str:
        """The name of the target on the screen."""
        ...

    def rows(self) -> tuple[TargetRow, ...]:
        """All targets, in the order of the settings."""
        ...

    def controller(self, name: str) -> ControllerLike | None:
        """The controller of a target, if it has been opened."""
        ...

    async def open(self, name: str) -> ControllerLike:
        """Open a target or return its open controller; does not wait for the connection. Raises OperatorError."""
        ...

    async def switch(self, name: str) -> ControllerLike:
        """Open a target and make it the current one. Raises OperatorError."""
        ...

    async def trust(self, controller: ControllerLike, shown: str) -> None:
        """Pin the key of the sentence that was shown, after an explicit yes, and connect again. Raises OperatorError."""
        ...

    async def begin(self, text: str) -> str:
        """Open a target that is not saved yet, to see whether it can be reached; returns its name. Raises OperatorError."""
        ...

    async def keep(self, name: str) -> None:
        """Save the profile of a target that was begun. Raises OperatorError."""
        ...

    async def drop(self, name: str) -> None:
        """Forget a target that was begun and not kept."""
        ...

    async def add(self, text: str) -> str:
        """Save a profile made of a pasted address or ssh command, unseen; returns its name. Raises OperatorError."""
        ...

    async def close(self) -> None:
        """Close all controllers within a second."""
        ...


Json = Mapping[str, Any]
