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
from console.ports import TargetRow
from console.screens.dialog import Dialog
from console.view import Link, LinkState
from remote.options import Options
from tests.support.book import ListedTargets
from tests.support.recorded import FakeController, demo_desk, desk_of, live_link, snapshot_json, stale_link, view_of

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
    begin: Callable[[ConsoleApp], None] = lambda app: None
    """What happens before the keys."""

    def file(self, size: tuple[int, int]) -> str:
        """The picture's file name without its ending."""
        return f"{self.name}-{size[0]}x{size[1]}"


def _state(name: str) -> Callable[[], tuple[Desk, FakeController]]:
    return lambda: desk_of(name)


def _demo(name: str) -> Callable[[], tuple[Desk, FakeController]]:
    return lambda: demo_desk(name)


def _targets() -> tuple[Desk, FakeController]:
    """Four targets: the incident, a run in order, one that is finished, one that does not answer."""
    desk, here = demo_desk("incident")
    _, running = demo_desk("running")
    _, finished = demo_desk("finished")
    running.publish(replace(running.view, link=live_link("root@10.0.0.8:22")))
    finished.publish(replace(finished.view, link=live_link("root@10.0.0.9:22")))
    error = "gpu-11 does not answer on port 22"
    dead = Link(LinkState.FAILED, "root@10.0.0.11:22", code="no-answer", error=error, remedy="is it switched on?")
    silent = FakeController(view_of(None, link=dead))
    names = ("gpu-07", "gpu-08", "gpu-09", "gpu-11")
    controllers = dict(zip(names, (here, running, finished, silent), strict=True))
    rows = tuple(TargetRow(name, controllers[name].view.link.target, read_only=name == "gpu-09") for name in names)
    desk.targets = ListedTargets(rows, controllers)
    return desk, here


def _first_run() -> tuple[Desk, FakeController]:
    desk, controller = desk_of(None, link=Link(LinkState.CONNECTING))
    desk.targets = ListedTargets((), {})
    return desk, controller


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
    Scene("main-full-size", sizes=((120, 36), (80, 24), (45, 20), (200, 60))),
    Scene("main-incident", make=_demo("incident"), sizes=((120, 36), (80, 24), (45, 20), (200, 60))),
    Scene("main-running", make=_demo("running")),
    Scene("main-finished", make=_demo("finished")),
    Scene("main-stale", make=_stale),
    Scene("main-empty", make=_state("empty")),
    Scene("main-read-only", make=_read_only),
    Scene("main-ten-thousand-bad", make=_state("ten-thousand-bad")),
    Scene("main-light", theme="eagle-light", sizes=((120, 36),)),
    Scene("main-ascii", ascii_only=True, sizes=((80, 24),)),
    Scene("main-16-colors", colors=Colors.FEW, sizes=((80, 24),)),
    Scene("main-no-color", colors=Colors.NONE, sizes=((80, 24),)),
    Scene("trace", ("d",), make=_demo("incident")),
    Scene("restart", ("r",), make=_demo("incident")),
    Scene("restart-running", ("r",), make=_demo("running"), sizes=((120, 36),)),
    Scene("kill", ("K",), make=_demo("incident")),
    Scene("kill-ours", ("K",), make=_demo("running")),
    Scene("budget", ("b", "5", "0", "k", "enter"), make=_demo("incident")),
    Scene("detail", ("j", "enter"), make=_demo("incident")),
    Scene("detail-row", ("j", "enter", "G"), make=_demo("incident")),
    Scene("schema", ("s",), make=_state("ten-thousand-bad")),
    Scene("log", ("l",), make=_demo("finished")),
    Scene("log-long", ("l",), make=_state("running"), sizes=((120, 36),)),
    Scene("log-search", ("l", "slash", "E", "R", "R", "enter"), make=_state("running")),
    Scene("engine", ("e",), make=_demo("running")),
    Scene("engine-night", ("e",), make=_state("running"), sizes=((120, 36),)),
    Scene("alerts", ("a",), make=_demo("incident")),
    Scene("audit", ("a",), make=_demo("finished")),
    Scene("targets", ("c",), make=_targets),
    Scene("first-run", make=_first_run, begin=lambda app: app.use(app.desk)),
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
        scene.begin(app)
        await _ready(pilot)
        for key in scene.keys:
            await pilot.press(key)
            await _ready(pilot)
        return app.export_screenshot(title=f"eagle3-console: {scene.name}")
