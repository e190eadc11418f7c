"""How the dangerous actions begin: the target is frozen at the key press, then a dialog shows it."""

from __future__ import annotations

from typing import Any

from rich.text import Text
from textual.app import App

from console.desk import Desk
from console.model import Writer
from console.ports import Proposal
from console.present_process import flags, script_name
from console.screens.act import ActDialog
from console.screens.picking import Pick, PickDialog

ConsoleAppLike = App[Any]


def start_restart(app: ConsoleAppLike, desk: Desk) -> None:
    """`r`: freeze, preflight, trace, ask. After "killed but not started", `r` is the key that starts."""
    options, controller = desk.options, desk.controller

    async def propose() -> Proposal:
        return await desk.operations.restart(controller, options)

    app.push_screen(ActDialog(f"restart on {controller.view.link.target}", propose))


def start_kill(app: ConsoleAppLike, desk: Desk) -> None:
    """`K`: of several processes one is picked first; what is frozen now is what the dialog is about."""
    snapshot = desk.view.snapshot
    victims: list[Writer | None] = []
    if snapshot is not None:
        victims += [None] if snapshot.generator.running or snapshot.generator.verdict == "held-by-stray" else []
        victims += snapshot.writers
    if len(victims) > 1:

        def picked(index: int | None) -> None:
            if index is not None:
                _ask_kill(app, desk, victims[index])

        picks = [Pick(_victim(desk, victim), "") for victim in victims]
        app.push_screen(PickDialog("kill which process?", picks), picked)
    else:
        _ask_kill(app, desk, victims[0] if victims else None)


def _victim(desk: Desk, victim: Writer | None) -> Text:
    snapshot = desk.view.snapshot
    if victim is None:
        pid = snapshot.generator.pid if snapshot is not None else None
        return Text(f"pid {pid}, our generator")
    return Text(f"pid {victim.pid}, not ours: {script_name(victim)} {flags(victim.argv)}")


def _ask_kill(app: ConsoleAppLike, desk: Desk, victim: Writer | None) -> None:
    controller = desk.controller

    async def propose() -> Proposal:
        return await desk.operations.kill(controller, victim)

    app.push_screen(ActDialog(f"kill on {controller.view.link.target}", propose))


def start_tokenize(app: ConsoleAppLike, desk: Desk) -> None:
    """`t`: rebuild wherever the plan says so."""
    controller, options = desk.controller, desk.options

    async def propose() -> Proposal:
        return await desk.operations.retokenize(controller, options, None)

    app.push_screen(ActDialog(f"tokenize on {controller.view.link.target}", propose))
