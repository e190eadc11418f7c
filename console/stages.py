"""The stages of an action while it is carried out: who is told, and what is left when one fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from console.ports import Progress
from widgets.stage_list import Stage, StageState


class StageBoard:
    """Keeps the stages and tells a listener all of them at every change."""

    def __init__(self, stages: Sequence[Stage], progress: Progress) -> None:
        self._stages = list(stages)
        self._progress = progress

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All stages as they stand."""
        return tuple(self._stages)

    def set(self, stage_id: str, state: StageState, detail: str | None = None) -> None:
        """Move one stage on, perhaps with other words, and tell the listener. A stage that is not there is ignored."""
        for place, stage in enumerate(self._stages):
            if stage.id == stage_id:
                self._stages[place] = replace(stage, state=state, detail=stage.detail if detail is None else detail)
                self._progress(self.stages)

    def give_up(self, stage_id: str, detail: str) -> None:
        """One stage failed: it says why, and every later one that was waiting is `not done`."""
        self.set(stage_id, StageState.FAILED, detail)
        for stage in self.stages:
            if stage.state is StageState.WAITING:
                self.set(stage.id, StageState.NOT_DONE)
