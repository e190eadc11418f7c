"""`demo`: the stand-in container, and the console on it."""

from __future__ import annotations

import json
import os

from console.commands import open_console
from console.demo import container
from console.invoked import program
from console.session import say
from console.settings import load_settings
from remote.exitcodes import ExitCode


def main(*, container_only: bool, stop: bool, reset: bool) -> int:
    """Start the container if none runs, then open the console on it; it lasts past `q`."""
    if stop:
        say("the demo's container is stopped" if container.stop() else "no demo's container runs")
        return int(ExitCode.DONE)
    info = container.start(reset=reset, on_stage=say)
    if container_only:
        print(json.dumps(info.to_json()))
        return int(ExitCode.DONE)
    try:
        return open_console.main(load_settings("demo", {}, os.environ))
    finally:
        say(f"the demo's container runs on; open it again with: {program()} demo, end it with: {program()} demo --stop")
