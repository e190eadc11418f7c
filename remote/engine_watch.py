"""The engine as the agent sees it: health, model and load, each asked at its own pace so that a hung one hides no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from remote.listener import listening_since
from remote.probe import (
    HEALTH_EVERY_S,
    HEALTH_LIMIT_S,
    QUICK_LIMIT_S,
    EngineFacts,
    probe_health,
    probe_load,
    probe_model,
)
from remote.shorthttp import HttpError
from remote.watch import Watch

LOAD_EVERY_S = 2.0
MODEL_EVERY_S = 30.0


class EngineWatch:
    """Three watches on one engine. `api_key` is asked at each look, because it may come to be known later."""

    def __init__(self, url: str, api_key: Callable[[], str | None], on_news: Callable[[], None]) -> None:
        self.url = url
        self._api_key = api_key
        self._health = Watch("engine health", self._look_health, HEALTH_EVERY_S, HEALTH_LIMIT_S + 5, on_news)
        self._model = Watch("engine model", self._look_model, MODEL_EVERY_S, 5 * QUICK_LIMIT_S, on_news)
        self._load = Watch("engine load", self._look_load, LOAD_EVERY_S, 3 * QUICK_LIMIT_S, on_news)
        self._was_healthy = False

    @property
    def watches(self) -> Sequence[Watch[Any]]:
        """The three, to be started, stopped and asked for their problems."""
        return (self._health, self._model, self._load)

    def facts(self) -> EngineFacts:
        """All that is known now; what an engine does not say, or an unhealthy one no longer says, is None."""
        health, detail = self._health.value or ("unknown", "")
        model = self._model.value or (EngineFacts(self.url), None)
        load = self._load.value or EngineFacts(self.url)
        return EngineFacts(
            url=self.url,
            health=health,
            detail=detail or model[0].detail or load.detail,
            model_path=model[0].model_path,
            served_name=model[0].served_name,
            version=model[0].version,
            weight_version=model[0].weight_version,
            context_length=model[0].context_length,
            max_total_tokens=model[0].max_total_tokens,
            max_running=model[0].max_running,
            running=load.running,
            queued=load.queued,
            token_usage=load.token_usage,
            tokens_s=load.tokens_s,
            router=model[0].router,
            workers=model[0].workers,
            unauthorized=model[0].unauthorized,
            at=self._health.at,
        )

    def to_json(self) -> dict[str, Any]:
        """`engine` of the snapshot. `since` is when the process that listens there was started."""
        found = self.facts().to_json()
        # When it was looked at changes with every look and tells an operator nothing.
        found.pop("at", None)
        found["since"] = int(self._model.value[1]) if self._model.value and self._model.value[1] else None
        return found

    def _look_health(self) -> tuple[str, str]:
        health = probe_health(self.url, self._api_key())
        healthy = health[0] == "healthy"
        if healthy and not self._was_healthy:
            self._model.nudge()  # it came up: another model may be behind it
        self._was_healthy = healthy
        return health

    def _look_model(self) -> tuple[EngineFacts, float | None]:
        try:
            return probe_model(self.url, self._api_key()), listening_since(self.url)
        except HttpError as error:
            return EngineFacts(self.url, detail=str(error)), None

    def _look_load(self) -> EngineFacts:
        try:
            return probe_load(self.url, self._api_key())
        except HttpError as error:
            return EngineFacts(self.url, detail=str(error))
