"""What the run knows of its engine: looked at before it begins and watched while it goes on.

Another model behind the address stops the run; new weights are said and recorded, for the answers are of another kind
from then on. The looks are blocking calls in threads of their own: one that hangs delays nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from remote import runs
from remote.daemonic import in_daemon
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.layout import Layout
from remote.limits import Limits
from remote.masking import masked_url
from remote.model import ModelFacts
from remote.options import Options
from remote.preflight_engine import model_difference
from remote.probe import EngineFacts, probe_health, probe_load, probe_model
from remote.shorthttp import HttpError
from remote.text import clean

_FALL_EVERY_S = 0.3


class ServedEngine:
    """The engine at `options.engine_url`. `say` is told what changed, `on_workers` at every look which engines it stands
    before: none when it is no router."""

    def __init__(
        self,
        layout: Layout,
        run_id: str,
        options: Options,
        model: ModelFacts,
        api_key: str | None,
        limits: Limits,
        on_workers: Callable[[tuple[str, ...]], None],
        say: Callable[[str], None],
    ) -> None:
        self._layout = layout
        self._run_id = run_id
        self._options = options
        self._model = model
        self._api_key = api_key
        self._limits = limits
        self._on_workers = on_workers
        self._say = say
        self._told: dict[str, Any] | None = None
        self._weights: set[str | None] = set()
        self._facts: EngineFacts | None = None

    async def health(self, limit_s: float, worker: str | None = None) -> tuple[str, str]:
        """One look at /health, or at that of one of its workers: (health, what is behind it)."""
        url, key = worker or self._options.engine_url, self._api_key
        return await in_daemon(lambda: probe_health(url, key, limit_s))

    async def load(self) -> EngineFacts | None:
        """Its load; None when it cannot be had."""
        url, key = self._options.engine_url, self._api_key
        try:
            return await in_daemon(lambda: probe_load(url, key))
        except HttpError:
            return None

    async def verify(self) -> None:
        """Look at its model, and refuse another one. Raises OperatorError (REFUSED). Silence is no refusal."""
        url, key = self._options.engine_url, self._api_key
        try:
            facts = await in_daemon(lambda: probe_model(url, key))
        except HttpError:
            return
        shown, path = clean(masked_url(url), 120), self._options.model_path
        if facts.unauthorized:
            raise OperatorError(
                "unauthorized",
                f"the engine at {shown} refuses the API key",
                "give the right one with --api-key-file",
                ExitCode.REFUSED,
            )
        difference = model_difference(path, self._model, facts) if path else None
        if difference is not None and "model" not in self._options.accept:
            raise OperatorError(
                "model",
                f"the engine at {shown} serves another model than --model-path {clean(path)}: {difference}",
                "give the folder of the served model, or --accept model",
                ExitCode.REFUSED,
            )
        self._facts = facts
        self._on_workers(facts.workers if facts.router else ())
        self._limits.learn(facts.context_length, facts.max_total_tokens)
        self._note(facts.weight_version)

    def answered(self, weight_version: str | None) -> None:
        """An answer came from these weights."""
        if weight_version is not None and weight_version not in self._weights:
            self._note(weight_version)

    def _note(self, weight_version: str | None) -> None:
        """Say and record what the engine is, when that is news. Raises OSError."""
        facts = self._facts
        if facts is None:
            return
        told = {
            "model_path": facts.model_path,
            "served_name": facts.served_name,
            "version": facts.version,
            "weight_version": weight_version,
            "context_length": facts.context_length,
            "router": facts.router,
            "workers": len(facts.workers),
        }
        self._weights.add(weight_version)
        before, self._told = self._told, told
        if told == before:
            return
        runs.record_engine(self._layout, self._run_id, told)
        if before is None:
            workers = f" before {len(facts.workers)} workers" if facts.router else ""
            name = "the router" if facts.router else f"SGLang {facts.version or 'of unknown version'}"
            served = facts.model_path or facts.served_name or "an unknown model"
            self._say(f"{name}{workers} serves {served}, weights {weight_version or 'unknown'}")
        elif before["weight_version"] != weight_version:
            self._say(f"the engine's weights changed from {before['weight_version']} to {weight_version}")
        else:
            self._say("the engine now says something else of itself; it is recorded in runs.jsonl")

    async def wait_fall(self, ours: int, before: int | None, limit_s: float) -> int | None:
        """Wait until the running requests have fallen by `ours`; how many run then, None when the engine does not say."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit_s
        while True:
            facts = await self.load()
            running = facts.running if facts is not None else None
            if not running or (before is not None and running <= before - ours) or loop.time() >= deadline:
                return running
            await asyncio.sleep(_FALL_EVERY_S)
