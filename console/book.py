"""The targets of one console: their controllers, made once and kept, so that switching waits for nobody."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from console.connecting import AskSecret, Connector
from console.controller import Controller
from console.demo_target import aim
from console.ports import TargetRow
from console.profiles import free_name, save_profile
from console.settings import Settings, load_settings
from console.target import parse_target
from console.view import ControllerLike
from remote.errors import OperatorError
from remote.release import release


class TargetBook:
    """The profiles of the settings, and the target that was typed if it is none of them.

    What the command line gave holds for the first target only: `--root` of one container is not
    that of another. `ask` asks the operator for a passphrase.
    """

    def __init__(self, settings: Settings, ask: AskSecret | None = None) -> None:
        self._config = str(settings.path) if settings.path.exists() else None
        self._ask = ask
        self._settings: dict[str, Settings] = {}
        self._connectors: dict[str, Connector] = {}
        self._controllers: dict[str, Controller] = {}
        self._names = list(settings.profiles)
        self._trials: set[str] = set()
        self._current = ""
        if settings.target is not None:
            self._current = settings.target.name
            self._settings[self._current] = settings
            if self._current not in self._names:
                self._names.insert(0, self._current)

    @property
    def current(self) -> str:
        """The name of the target on the screen; empty before there is one."""
        return self._current

    def rows(self) -> tuple[TargetRow, ...]:
        """All targets, in the order of the settings."""
        return tuple(self._row(name) for name in self._names if name not in self._trials)

    def _row(self, name: str) -> TargetRow:
        settings = self._settings_of(name)
        return TargetRow(name, str(settings.target), settings.options.read_only, settings.color)

    def _settings_of(self, name: str) -> Settings:
        if name not in self._settings:
            flags = {"config": self._config} if self._config else {}
            self._settings[name] = aim(load_settings(name, flags))
        return self._settings[name]

    def settings(self, name: str) -> Settings:
        """The settings of one target. Raises OperatorError when there is none of that name."""
        if name not in self._names:
            raise OperatorError(
                "no-target", f"there is no target {name!r}", f"known are {', '.join(self._names) or 'none'}"
            )
        return self._settings_of(name)

    def controller(self, name: str) -> ControllerLike | None:
        """The controller of a target, if it has been opened."""
        return self._controllers.get(name)

    async def open(self, name: str) -> ControllerLike:
        """Open a target or return its open controller; does not wait for the connection. Raises OperatorError."""
        controller = self._controllers.get(name)
        if controller is None:
            settings = self.settings(name)
            assert settings.target is not None
            connector = Connector(settings.target, settings.options.python, self._ask)
            controller = Controller(
                name, settings.options, connector, thresholds=settings.thresholds, release=release()
            )
            connector.on_stage = controller.on_stage
            self._connectors[name] = connector
            self._controllers[name] = controller
            await controller.start()
        return controller

    async def switch(self, name: str) -> ControllerLike:
        """Put a target on the screen. Raises OperatorError."""
        controller = await self.open(name)
        self._current = name
        return controller

    async def trust(self, controller: ControllerLike, shown: str) -> None:
        """Pin the key of the sentence that was shown, after an explicit yes, and connect again. Raises OperatorError."""
        name = next(name for name, own in self._controllers.items() if own is controller)
        self._connectors[name].accept_key(shown)
        controller.reconnect_now()

    async def begin(self, text: str) -> str:
        """Open a target that is not saved yet, to see whether it can be reached; returns its name. Raises OperatorError."""
        target = parse_target(text, ())
        name = free_name(target, dict.fromkeys(self._names))
        flags = {"config": self._config} if self._config else {}
        self._settings[name] = replace(load_settings("local", flags), target=replace(target, name=name))
        self._names.append(name)
        self._trials.add(name)
        await self.open(name)
        return name

    async def keep(self, name: str) -> None:
        """Save the profile of a target that was begun. Raises OperatorError."""
        settings = self.settings(name)
        assert settings.target is not None
        save_profile(settings.path, name, settings.target)
        self._config = str(settings.path)
        self._trials.discard(name)

    async def drop(self, name: str) -> None:
        """Forget a target that was begun and not kept."""
        if name in self._trials:
            self._trials.discard(name)
            self._names.remove(name)
            del self._settings[name]
            del self._connectors[name]
            await self._controllers.pop(name).close()

    async def add(self, text: str) -> str:
        """Save a profile made of a pasted address or ssh command, unseen; returns its name. Raises OperatorError."""
        name = await self.begin(text)
        try:
            await self.keep(name)
        except OperatorError:
            await self.drop(name)
            raise
        return name

    async def close(self) -> None:
        """Close all controllers within a second."""
        if self._controllers:
            await asyncio.gather(*(controller.close() for controller in self._controllers.values()))
