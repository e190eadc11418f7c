"""Lists of targets for screen tests and pictures: each a recording, opened at once."""

from __future__ import annotations

from console.ports import TargetRow
from console.view import ControllerLike
from remote.errors import OperatorError
from tests.support.recorded import FakeController, live_link, snapshot_json, view_of


class ListedTargets:
    """Targets that are their recordings; the first one is on the screen, what is not in the list is refused."""

    def __init__(self, rows: tuple[TargetRow, ...], controllers: dict[str, FakeController]) -> None:
        self.controllers = controllers
        self.trusted: list[ControllerLike] = []
        self.added: list[str] = []
        self._rows = rows
        self._current = rows[0].name if rows else ""
        self.opened = {self._current}

    @property
    def current(self) -> str:
        return self._current

    def rows(self) -> tuple[TargetRow, ...]:
        return self._rows

    def controller(self, name: str) -> ControllerLike | None:
        return self.controllers[name] if name in self.opened else None

    async def open(self, name: str) -> ControllerLike:
        if name not in self.controllers:
            raise OperatorError("no-target", f"{name} is no target", "see the list with c")
        self.opened.add(name)
        return self.controllers[name]

    async def switch(self, name: str) -> ControllerLike:
        controller = await self.open(name)
        self._current = name
        return controller

    async def trust(self, controller: ControllerLike, shown: str) -> None:
        self.trusted.append(controller)

    async def begin(self, text: str) -> str:
        self.opened.add("gpu-08")
        return "gpu-08"

    async def keep(self, name: str) -> None:
        self.added.append(name)

    async def drop(self, name: str) -> None:
        self.opened.discard(name)

    async def add(self, text: str) -> str:
        self.added.append(text)
        return "gpu-08"

    async def close(self) -> None:
        for controller in self.controllers.values():
            await controller.close()


class TwoTargets(ListedTargets):
    """`gpu-07` is open from the start; `gpu-08`, read-only, opens at once."""

    def __init__(self, here: FakeController) -> None:
        other = FakeController(view_of(snapshot_json("running"), link=live_link("root@10.0.0.8:22")))
        rows = (TargetRow("gpu-07", "root@10.0.0.7:22"), TargetRow("gpu-08", "root@10.0.0.8:22", read_only=True))
        super().__init__(rows, {"gpu-07": here, "gpu-08": other})
