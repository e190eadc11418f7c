"""What every screen is handed: the controller of the target on the screen, the actions, the targets, the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from console.observed import Observed
from console.view import ControllerLike, View
from remote.options import Budget, Options

if TYPE_CHECKING:
    from console.ports import Operations, Targets


@dataclass
class Desk:
    """One operator's desk.

    `budget` is what `b` tried last, None as long as it is the settings' own; `observed` is what
    was seen of the target since the desk looks at it.
    """

    controller: ControllerLike
    operations: Operations
    targets: Targets | None = None
    clock: Callable[[], float] = time.time
    budget: Budget | None = None
    ascii_only: bool = False
    observed: Observed = field(default_factory=Observed)

    @property
    def view(self) -> View:
        """The latest view."""
        return self.controller.view

    @property
    def options(self) -> Options:
        """The settings, with the budget that is being tried."""
        options = self.view.options
        return options if self.budget is None else replace(options, token_budget=self.budget)

    async def ask(self, method: str, params: Mapping[str, Any] | None = None, timeout_s: float = 20.0) -> Any:
        """One request to the container. Raises OperatorError."""
        return await self.controller.call(method, params, timeout_s)

    async def plan(self, options: Options | None = None) -> Mapping[str, Any]:
        """`plan --json` of these options, or of the desk's. Raises OperatorError."""
        answer = await self.ask("plan", {"options": (options or self.options).to_json()}, 60.0)
        return answer if isinstance(answer, dict) else {}
