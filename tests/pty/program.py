"""The console in a process of its own, over a recording: what the pty tests start.

python -m tests.pty.program STATE [hostile|crash|stuck]
"""

from __future__ import annotations

import asyncio
import os
import sys

from console.app import ConsoleApp, run_app
from tests.support.recorded import desk_of
from tests.ui.hostile import NASTY


class CrashingApp(ConsoleApp):
    """Fails once it is painted, with a secret in a variable and in the error's text."""

    def on_mount(self) -> None:
        super().on_mount()
        self.set_timer(0.2, self._fail)

    def _fail(self) -> None:
        secret = os.environ["EAGLE3_API_KEY"]
        raise RuntimeError(f"cannot go on with {secret}")


class StuckController:
    """A controller whose link never answers, not even to `close`."""

    def __init__(self, inner) -> None:
        self._inner = inner

    def __getattr__(self, name: str):
        return getattr(self._inner, name)

    async def close(self) -> None:
        await asyncio.Event().wait()


def main() -> int:
    state, *rest = sys.argv[1:]
    mode = rest[0] if rest else ""
    desk, controller = desk_of(state)
    if mode == "hostile":
        from tests.ui.test_hostile import hostile_desk

        desk = hostile_desk(NASTY)
    if mode == "stuck":
        desk.controller = StuckController(controller)
    return run_app((CrashingApp if mode == "crash" else ConsoleApp)(desk=desk))


if __name__ == "__main__":
    raise SystemExit(main())
