"""The scenes that are pictured: a state, a size, the keys that lead there. Pictures and snapshot tests share them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from textual.pilot import Pilot
from textual.worker import WorkerCancelled, WorkerFailed

from console.app import ConsoleApp
from console.colors import Colors
from console.desk import Desk
from console.screens.dialog import Dialog
from console.view import Link, LinkState
from remote.options import Options
from tests.support.recorded import FakeController, desk_of, snapshot_json, stale_link, view_of

SETTLE_DEADLINE_S = 20.0
WAIT_FOR_OPERATOR = ("asking",)
SIZES = ((120, 36), (80, 24))


@dataclass(frozen=True)
class Scene:
    """One picture, at each of `sizes`. `make` gives the desk; `keys` are pressed, and settled, one by one."""

    name: str
    keys: tuple[str, ...] = ()
    make: Callable[[], tuple[Desk, FakeController]] = desk_of
    sizes: tuple[tuple[int, int], ...] = SIZES
    theme: str = ""
    ascii_only: bool = False
    colors: Colors = Colors.FULL

    def file(self, size: tuple[int, int]) -> str:
        """The picture's file name without its ending."""
        return f"{self.name}-{size[0]}x{size[1]}"


def _state(name: str) -> Callable[[], tuple[Desk, FakeController]]:
    return lambda: desk_of(name)


def _stale() -> tuple[Desk, FakeController]:
    desk, controller = desk_of("running")
    controller.publish(view_of(snapshot_json("running"), link=stale_link(controller.view.now)))
    return desk, controller


def _read_only() -> tuple[Desk, FakeController]:
    return desk_of("running", Options(read_only=True))


def _unlinked(**link: object) -> Callable[[], tuple[Desk, FakeController]]:
    def make() -> tuple[Desk, FakeController]:
        return desk_of(None, link=replace(Link(target="gpu-07"), **link))  # type: ignore[arg-type]

    return make


KEY = "ssh-ed25519 SHA256:0YWmWaxKpK2P8mJ8w0sO0UPbA1nZP5x7d3Wb1E0dQkI"

SCENES: tuple[Scene, ...] = (
    Scene("main-incident", sizes=((120, 36), (80, 24), (45, 20), (200, 60))),
    Scene("main-running", make=_state("running")),
    Scene("main-stale", make=_stale),
    Scene("main-empty", make=_state("empty")),
    Scene("main-read-only", make=_read_only),
    Scene("main-ten-thousand-bad", make=_state("ten-thousand-bad")),
    Scene("main-light", theme="eagle-light", sizes=((120, 36),)),
    Scene("main-ascii", ascii_only=True, sizes=((80, 24),)),
    Scene("main-16-colors", colors=Colors.FEW, sizes=((80, 24),)),
    Scene("main-no-color", colors=Colors.NONE, sizes=((80, 24),)),
    Scene("trace", ("d",)),
    Scene("restart", ("r",)),
    Scene("kill", ("K",)),
    Scene("budget", ("b", "5", "M", "enter")),
    Scene("detail", ("j", "enter")),
    Scene("detail-row", ("j", "enter", "G")),
    Scene("schema", ("s",), make=_state("ten-thousand-bad")),
    Scene("log", ("l",), make=_state("running")),
    Scene("log-search", ("l", "slash", "E", "R", "R", "enter"), make=_state("running")),
    Scene("engine", ("e",), make=_state("running")),
    Scene("alerts", ("a",), make=_state("running")),
    Scene("alerts-incident", ("a",)),
    Scene("help", ("question_mark",)),
    Scene("help-read-only", ("question_mark",), make=_read_only, sizes=((120, 36),)),
    Scene("palette", ("ctrl+p",), sizes=((120, 36),)),
    Scene("connecting", make=_unlinked(state=LinkState.CONNECTING, stage="asking for the host key")),
    Scene(
        "failed",
        make=_unlinked(
            state=LinkState.FAILED,
            code="not-let-in",
            error="gpu-07:22 does not let root in with these keys: ~/.ssh/id_ed25519",
            remedy="add one of their public halves to the container, or name the right key with --identity",
        ),
    ),
    Scene(
        "host-key-unknown",
        make=_unlinked(
            state=LinkState.UNKNOWN_KEY,
            code="host-key-unknown",
            error=f"the key of gpu-07 is not known yet: {KEY}",
            remedy="compare it with what the provider shows, then accept it in the console, or connect once with ssh",
        ),
    ),
    Scene(
        "host-key-changed",
        make=_unlinked(
            state=LinkState.CHANGED_KEY,
            code="host-key-changed",
            error=f"the key of gpu-07 CHANGED: known is ssh-ed25519 SHA256:mJ8w0sO0UPbA1nZP5x7d3Wb1E0dQkI0YWmWaxKpK2P8, "
            f"shown is {KEY}; nothing was sent",
            remedy="if the container was recreated, run ssh-keygen -R gpu-07 -f ~/.ssh/known_hosts and connect again; "
            "else somebody may be in between",
        ),
    ),
)


async def settle(pilot: Pilot[int]) -> None:
    """Wait until no worker runs and everything is painted; workers that wait for an operator are left to wait."""
    async with asyncio.timeout(SETTLE_DEADLINE_S):
        await pilot.pause()
        busy = [worker for worker in pilot.app.workers if worker.group not in WAIT_FOR_OPERATOR]
        for worker in busy:
            with contextlib.suppress(WorkerFailed, WorkerCancelled):
                await worker.wait()
        await pilot.pause()


async def _ready(pilot: Pilot[int]) -> None:
    await settle(pilot)
    screen = pilot.app.screen
    if isinstance(screen, Dialog) and not screen.armed:
        screen.arm()
        await settle(pilot)


async def picture(scene: Scene, size: tuple[int, int]) -> str:
    """The scene as SVG; the same text in every process."""
    desk, _ = scene.make()
    app = ConsoleApp(desk=desk, ascii_only=scene.ascii_only, colors=scene.colors)
    if scene.theme:
        app.theme = scene.theme
    async with app.run_test(size=size, notifications=False) as pilot:
        await _ready(pilot)
        for key in scene.keys:
            await pilot.press(key)
            await _ready(pilot)
        return app.export_screenshot(title=f"eagle3-console: {scene.name}")
