"""The target `demo`: the settings of whatever stand-in container runs now, unless the operator gave others."""

from __future__ import annotations

from dataclasses import replace

from console.invoked import program
from console.settings import Settings
from remote.errors import OperatorError
from remote.options import TABLE


def aim(settings: Settings) -> Settings:
    """Settings whose target `demo` is replaced by the running stand-in container; others as they are.

    Raises OperatorError `no-demo` when none runs.
    """
    if settings.target is None or settings.target.kind != "demo":
        return settings
    from console.demo.container import info

    running = info()
    if running is None:
        raise OperatorError("no-demo", "no stand-in container runs", f"start one with: {program()} demo")
    own = running.options()
    changes = {
        option.name: option.read(own[option.name], option.flag)
        for option in TABLE
        if option.name in own and settings.sources.get(option.name) == "default"
    }
    return replace(settings, target=running.address, options=replace(settings.options, **changes))
