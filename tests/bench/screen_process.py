"""The process that `bench_screens` measures; imports nothing that the console itself would not."""

from __future__ import annotations

import asyncio
import sys


def bare() -> int:
    """The least that Textual can be: an app with one line of text."""
    from textual.app import App, ComposeResult
    from textual.widgets import Static

    class Bare(App[int]):
        def compose(self) -> ComposeResult:
            yield Static("eagle3-console")

    return Bare().run() or 0


def console(mode: str) -> int:
    """`idle` shows a recording; `busy` updates it twice a second."""
    from console.app import ConsoleApp, run_app
    from tests.support.recorded import desk_of, snapshot_json, view_of

    desk, controller = desk_of("running")

    class Busy(ConsoleApp):
        def on_mount(self) -> None:
            super().on_mount()
            if mode == "busy":
                self.run_worker(self._feed())

        async def _feed(self) -> None:
            raw = snapshot_json("running")
            while True:
                await asyncio.sleep(0.5)
                raw["seq"] += 1
                raw["at"] += 0.5
                for row in raw["datasets"].values():
                    if row["in_work"]:
                        row["tokens"] += 300
                        row["responses"] += 1
                        row["answered"] += 1
                raw["engine"]["tokens_s"] += 1
                controller.publish(view_of(raw))

    return run_app(Busy(desk=desk))


if __name__ == "__main__":
    raise SystemExit(bare() if sys.argv[1] == "bare" else console(sys.argv[1]))
