"""A list of two targets for screen tests: the one on the screen, and another over its own recording."""

from __future__ import annotations

from console.ports import TargetRow
from console.view import ControllerLike
from remote.errors import OperatorError
from tests.support.recorded import FakeController, live_link, snapshot_json, view_of


class TwoTargets:
    """`gpu-07` is open from the start; `gpu-08` opens at once; anything else is refused."""

    def __init__(self, here: FakeController) -> None:
        other = FakeController(view_of(snapshot_json("running"), link=live_link("root@10.0.0.8:22")))
        self.controllers = {"gpu-07": here, "gpu-08": other}
        self.opened = {"gpu-07"}
        self.trusted: list[ControllerLike] = []
        self.added: list[str] = []
        self._current = "gpu-07"

    @property
    def current(self) -> str:
        return self._current

    def rows(self) -> tuple[TargetRow, ...]:
        return (TargetRow("gpu-07", "root@10.0.0.7:22"), TargetRow("gpu-08", "root@10.0.0.8:22", read_only=True))

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

    async def trust(self, controller: ControllerLike) -> None:
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
