"""What the stand-in engine says of itself: health, model, load and metrics, as each version of SGLang says it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from console.demo.engine_decode import Scheduler
from console.demo.engine_http import Request, Response, Routes, json_response
from console.demo.engine_settings import VERSIONS, EngineSettings


class Pages:
    """The pages of one engine. `told` holds what a test may change while it runs (`engine_faults`)."""

    def __init__(self, settings: EngineSettings, scheduler: Scheduler) -> None:
        self._settings = settings
        self._scheduler = scheduler
        self._started = time.monotonic()
        self.told: dict[str, Any] = {"model_path": settings.model_path, "weight_version": settings.weight_version}

    def routes(self) -> Routes:
        """Method and path of each page that this version has, with its handler."""
        routes: Routes = {
            ("GET", "/health"): self._health,
            ("GET", "/health_generate"): self._health,
            ("GET", "/get_model_info"): self._model_info,
            ("GET", "/get_server_info"): self._server_info,
            ("GET", "/v1/models"): self._models,
        }
        if self._settings.emulate != "0.5.3":
            routes[("GET", "/model_info")] = self._model_info
            routes[("GET", "/server_info")] = self._server_info
            routes[("GET", "/v1/loads")] = self._loads
        if self._settings.emulate != "0.5.23":
            routes[("GET", "/get_load")] = self._load
        else:
            routes[("GET", "/ready")] = self._ready
        if self._settings.metrics:
            routes[("GET", "/metrics")] = self._metrics
        return routes

    @property
    def loading(self) -> bool:
        """Whether it is still loading its weights: it answers 503 then."""
        return bool(self.told.get("loading")) or time.monotonic() - self._started < self._settings.load_s

    async def _health(self, _: Request) -> Response:
        if self.loading:
            return Response(503)
        await asyncio.sleep(self._settings.health_s)
        return Response(503 if self.told.get("unhealthy") else 200)

    async def _ready(self, _: Request) -> Response:
        return Response(503 if self.loading else 200)

    async def _model_info(self, _: Request) -> Response:
        info = {
            "model_path": self.told["model_path"],
            "tokenizer_path": self.told["model_path"],
            "is_generation": True,
            "preferred_sampling_params": None,
            "weight_version": self.told["weight_version"],
        }
        if self._settings.emulate == "0.5.23":
            info["served_model_name"] = self._settings.served_name or self.told["model_path"]
        return json_response(info)

    async def _server_info(self, _: Request) -> Response:
        told = self._settings
        return json_response(
            {
                "model_path": self.told["model_path"],
                "served_model_name": told.served_name or self.told["model_path"],
                "api_key": told.api_key,
                "context_length": told.context_length,
                "max_running_requests": told.max_running,
                "max_queued_requests": told.max_queued,
                "max_req_input_len": told.context_length - 6,
                "skip_tokenizer_init": False,
                "allow_auto_truncate": False,
                "enable_metrics": told.metrics,
                "version": VERSIONS[told.emulate],
                "status": "ready",
                "internal_states": [{"last_gen_throughput": self._throughput()}],
            }
        )

    async def _models(self, _: Request) -> Response:
        name = self._settings.served_name or self.told["model_path"]
        model = {"id": name, "object": "model", "owned_by": "sglang", "root": name}
        return json_response({"object": "list", "data": [model | {"max_model_len": self._settings.context_length}]})

    def _throughput(self) -> float:
        return self._scheduler.speed * len(self._scheduler.running)

    def _usage(self) -> float:
        return min(1.0, self._scheduler.used_tokens() / (self._settings.max_running * self._settings.context_length))

    async def _load(self, _: Request) -> Response:
        running, waiting = len(self._scheduler.running), len(self._scheduler.waiting)
        return json_response(
            [
                {
                    "dp_rank": None,
                    "num_reqs": running + waiting,
                    "num_waiting_reqs": waiting,
                    "num_tokens": self._scheduler.used_tokens(),
                }
            ]
        )

    async def _loads(self, _: Request) -> Response:
        if self._settings.emulate == "0.5.9":
            return Response(500, b"Internal Server Error", "text/plain; charset=utf-8")
        load = {
            "dp_rank": 0,
            "num_running_reqs": len(self._scheduler.running),
            "num_waiting_reqs": len(self._scheduler.waiting),
            "num_used_tokens": self._scheduler.used_tokens(),
            "max_running_requests": self._settings.max_running,
            "token_usage": self._usage(),
            "gen_throughput": self._throughput(),
            "cache_hit_rate": 0.0,
        }
        return json_response({"version": VERSIONS[self._settings.emulate], "loads": [load]})

    async def _metrics(self, _: Request) -> Response:
        labels = f'{{engine_type="unified",model_name="{self.told["model_path"]}",tp_rank="0"}}'
        gauges = {
            "num_running_reqs": len(self._scheduler.running),
            "num_queue_reqs": len(self._scheduler.waiting),
            "num_used_tokens": self._scheduler.used_tokens(),
            "token_usage": self._usage(),
            "gen_throughput": self._throughput(),
        }
        counters = {
            "generation_tokens_total": self._scheduler.generated_tokens,
            "num_aborted_requests_total": self._scheduler.aborted,
        }
        lines: list[str] = []
        for kind, values in (("gauge", gauges), ("counter", counters)):
            for name, value in values.items():
                lines += [f"# TYPE sglang:{name} {kind}", f"sglang:{name}{labels} {float(value)}"]
        return Response(200, ("\n".join(lines) + "\n").encode(), "text/plain; version=0.0.4")
