"""A stand-in for SGLang: the same HTTP contract, no model, a stated speed.

    python -m console.demo.engine --port 0 --model-path DIR --seed 1 --request-tokens-s 80

It answers as SGLang 0.5.9 does; `--emulate 0.5.3` and `--emulate 0.5.23` change what those versions do otherwise. It
prints one JSON line, `{"url", "pid"}`, when it listens, and ends on SIGTERM. Faults: see `engine_faults`.
As with the real one, an id outside the vocabulary ends the whole process: no client may send one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from console.demo.engine_decode import Job, Scheduler, Speaker, Vocabulary, read_vocabulary
from console.demo.engine_faults import Fault, Faults
from console.demo.engine_http import Request, Response, serve

VERSIONS = {"0.5.3": "0.5.3.post3", "0.5.9": "0.5.9", "0.5.23": "0.5.23"}
_SAMPLING_KEYS = frozenset(
    (
        *("max_new_tokens", "min_new_tokens", "temperature", "top_p", "top_k", "min_p", "n", "sampling_seed"),
        *("stop", "stop_token_ids", "stop_regex", "ignore_eos", "no_stop_trim", "stream_interval"),
        *("skip_special_tokens", "spaces_between_special_tokens", "logit_bias", "custom_params"),
        *("frequency_penalty", "presence_penalty", "repetition_penalty"),
        *("json_schema", "regex", "ebnf", "structural_tag"),
    )
)
_OPEN_PATHS = frozenset(("/health", "/health_generate", "/metrics", "/_fault", "/_seen"))
_CRASH_STATUS = 137


@dataclass(frozen=True)
class EngineSettings:
    """How a stand-in engine behaves. Speeds are in tokens a second, `health_s` is what /health takes."""

    model_path: str = "stand-in"
    served_name: str | None = None
    seed: int = 1
    mean_tokens: float = 1_500.0
    sigma: float = 0.7
    request_tokens_s: float = 80.0
    batch_tokens_s: float = 4_000.0
    max_running: int = 256
    max_queued: int | None = None
    context_length: int = 32_768
    api_key: str | None = None
    emulate: str = "0.5.9"
    metrics: bool = True
    health_s: float = 1.0
    load_s: float = 0.0
    weight_version: str = "default"


def _json(value: object, status: int = 200, close: bool = False) -> Response:
    return Response(status, json.dumps(value).encode(), close=close)


def _error(message: str, status: int = 400) -> Response:
    return _json({"error": {"message": message}}, status)


class Engine:
    """The state of one stand-in engine and its handlers; `handle` is what the HTTP server calls."""

    def __init__(self, settings: EngineSettings, vocabulary: Vocabulary, faults: Faults) -> None:
        self.settings = settings
        self.faults = faults
        self._vocabulary = vocabulary
        self._speaker = Speaker(vocabulary, settings.seed, settings.mean_tokens, settings.sigma)
        self._scheduler = Scheduler(settings.max_running, settings.request_tokens_s, settings.batch_tokens_s)
        self._started = time.monotonic()
        self._told: dict[str, Any] = {"model_path": settings.model_path, "weight_version": settings.weight_version}
        self._seen: dict[str, Any] = {"requests": 0, "aborts": 0, "rids": [], "sampling": None}
        self._routes = {
            ("POST", "/generate"): self._generate,
            ("PUT", "/generate"): self._generate,
            ("POST", "/abort_request"): self._abort,
            ("GET", "/health"): self._health,
            ("GET", "/health_generate"): self._health,
            ("GET", "/get_model_info"): self._model_info,
            ("GET", "/get_server_info"): self._server_info,
            ("GET", "/v1/models"): self._models,
            ("POST", "/_fault"): self._fault,
            ("GET", "/_seen"): self._counts,
        }
        if settings.emulate != "0.5.3":
            self._routes[("GET", "/model_info")] = self._model_info
            self._routes[("GET", "/server_info")] = self._server_info
            self._routes[("GET", "/v1/loads")] = self._loads
        if settings.emulate != "0.5.23":
            self._routes[("GET", "/get_load")] = self._load
        else:
            self._routes[("GET", "/ready")] = self._ready
        if settings.metrics:
            self._routes[("GET", "/metrics")] = self._metrics

    async def handle(self, request: Request) -> Response | None:
        """Answer one request; None closes the connection without an answer."""
        key = self.settings.api_key
        if key and request.path not in _OPEN_PATHS and request.headers.get("authorization") != f"Bearer {key}":
            return _json({"error": "Unauthorized"}, 401)
        route = self._routes.get((request.method, request.path))
        if route is not None:
            return await route(request)
        if any(path == request.path for _, path in self._routes):
            return _json({"detail": "Method Not Allowed"}, 405)
        return _json({"detail": "Not Found"}, 404)

    # ---- what it says of itself

    def _loading(self) -> bool:
        return bool(self._told.get("loading")) or time.monotonic() - self._started < self.settings.load_s

    async def _health(self, _: Request) -> Response:
        if self._loading():
            return Response(503)
        await asyncio.sleep(self.settings.health_s)
        return Response(503 if self._told.get("unhealthy") else 200)

    async def _ready(self, _: Request) -> Response:
        return Response(503 if self._loading() else 200)

    async def _model_info(self, _: Request) -> Response:
        info = {
            "model_path": self._told["model_path"],
            "tokenizer_path": self._told["model_path"],
            "is_generation": True,
            "preferred_sampling_params": None,
            "weight_version": self._told["weight_version"],
        }
        if self.settings.emulate == "0.5.23":
            info["served_model_name"] = self.settings.served_name or self._told["model_path"]
        return _json(info)

    async def _server_info(self, _: Request) -> Response:
        told = self.settings
        return _json(
            {
                "model_path": self._told["model_path"],
                "served_model_name": told.served_name or self._told["model_path"],
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
        name = self.settings.served_name or self._told["model_path"]
        model = {"id": name, "object": "model", "owned_by": "sglang", "root": name}
        return _json({"object": "list", "data": [model | {"max_model_len": self.settings.context_length}]})

    def _throughput(self) -> float:
        return self._scheduler.speed * len(self._scheduler.running)

    def _usage(self) -> float:
        return min(1.0, self._scheduler.used_tokens() / (self.settings.max_running * self.settings.context_length))

    async def _load(self, _: Request) -> Response:
        running, waiting = len(self._scheduler.running), len(self._scheduler.waiting)
        return _json(
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
        if self.settings.emulate == "0.5.9":
            return Response(500, b"Internal Server Error", "text/plain; charset=utf-8")
        load = {
            "dp_rank": 0,
            "num_running_reqs": len(self._scheduler.running),
            "num_waiting_reqs": len(self._scheduler.waiting),
            "num_used_tokens": self._scheduler.used_tokens(),
            "max_running_requests": self.settings.max_running,
            "token_usage": self._usage(),
            "gen_throughput": self._throughput(),
            "cache_hit_rate": 0.0,
        }
        return _json({"version": VERSIONS[self.settings.emulate], "loads": [load]})

    async def _metrics(self, _: Request) -> Response:
        labels = f'{{engine_type="unified",model_name="{self._told["model_path"]}",tp_rank="0"}}'
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

    # ---- for tests alone

    async def _fault(self, request: Request) -> Response:
        value = json.loads(request.body)
        if value.get("kind") == "set":
            self._told.update({name: item for name, item in value.items() if name != "kind"})
        else:
            try:
                self.faults.add(value)
            except ValueError as error:
                return _error(str(error))
        return _json({})

    async def _counts(self, _: Request) -> Response:
        running = [job.rid for job in self._scheduler.running.values()]
        return _json(self._seen | {"running": running, "waiting": [job.rid for job in self._scheduler.waiting]})

    def _see(self, rid: str, sampling: dict[str, Any]) -> None:
        self._seen["requests"] += 1
        self._seen["sampling"] = sampling
        self._seen["rids"] = [*self._seen["rids"][-999:], rid]

    # ---- generating

    async def _abort(self, request: Request) -> Response:
        try:
            value = json.loads(request.body)
        except ValueError:
            return _json({"object": "error", "message": "1 validation error", "type": "Bad Request", "code": 400}, 400)
        self._seen["aborts"] += 1
        if value.get("abort_all"):
            self._scheduler.abort("")
        elif any(job.rid == value.get("rid") for job in self._scheduler.jobs()):
            # The real server passes a rid on only when it knows it whole; the scheduler then matches by prefix.
            self._scheduler.abort(value["rid"])
        return Response(200)

    def _refusal(self, ids: list[Any], sampling: dict[str, Any], rid: str) -> Response | None:
        """What a request is refused with before it reaches the scheduler; ends the process where the real one dies."""
        version, context = self.settings.emulate, self.settings.context_length
        unknown = next((key for key in sampling if key not in _SAMPLING_KEYS), None)
        if unknown is not None:
            if version == "0.5.23":
                return _json(
                    {"error": f"unknown field `{unknown}`, expected one of `max_new_tokens`, `temperature`"}, 400
                )
            return Response(500, b"Internal Server Error", "text/plain; charset=utf-8", close=True)
        if not ids:
            return _error("input_ids cannot be empty.")
        temperature = sampling.get("temperature", 1.0)
        if temperature < 0:
            return _error(f"temperature must be non-negative, got {temperature}.")
        if len(ids) >= context:
            return _error(
                f"The input ({len(ids)} tokens) is longer than the model's context length ({context} tokens)."
            )
        limit = sampling.get("max_new_tokens", 128)
        if limit is not None and len(ids) + limit >= context:
            return _error(
                f"Requested token count exceeds the model's maximum context length of {context} tokens. You requested a"
                f" total of {len(ids) + limit} tokens: {len(ids)} tokens from the input messages and {limit} tokens for"
                " the completion. Please reduce the number of tokens in the input messages or the completion to fit"
                " within the limit."
            )
        if any(not 0 <= number < self._vocabulary.size for number in ids):
            self._die("token id out of range")
        if any(job.rid == rid for job in self._scheduler.jobs()):
            if version == "0.5.23":
                return _error(f"Duplicate request ID detected: {rid}")
            self._die("duplicate rid")
        queued = len(self._scheduler.waiting)
        if self.settings.max_queued is not None and queued >= self.settings.max_queued:
            body = {
                "object": "error",
                "message": "The request queue is full.",
                "type": "503",
                "param": None,
                "code": 503,
            }
            return _json(body, 503)
        return None

    def _die(self, why: str) -> None:
        print(f"stand-in engine dies: {why}", file=sys.stderr, flush=True)
        os._exit(_CRASH_STATUS)

    async def _generate(self, request: Request) -> Response | None:
        try:
            value = json.loads(request.body)
            ids, sampling = value["input_ids"], value.get("sampling_params") or {}
            if not all(type(number) is int for number in ids):
                raise ValueError("input_ids")
        except (ValueError, KeyError, TypeError):
            body = {
                "object": "error",
                "message": "1 validation error:\n",
                "type": "Bad Request",
                "param": None,
                "code": 400,
            }
            return _json(body, 400)
        if self._loading():
            return Response(503)
        rid = value.get("rid") or uuid.uuid4().hex
        self._see(rid, sampling)
        fault = self.faults.strike(ids)
        if fault is not None and fault.kind == "crash":
            self._die("asked to")
        if fault is not None and fault.kind == "disconnect":
            return None
        if fault is not None and fault.kind == "status":
            return Response(fault.status, fault.body.encode())
        refusal = self._refusal(ids, sampling, rid)
        if refusal is not None:
            return refusal
        limit = sampling.get("max_new_tokens", 128)
        answer = self._speaker.answer(ids, self.settings.context_length - len(ids) if limit is None else limit)
        job = Job(rid, ids, answer, asyncio.get_running_loop().create_future())
        job.never_ends = fault is not None and fault.kind == "hang"
        started = time.monotonic()
        self._scheduler.submit(job)
        finish = await job.done
        return self._answer(job, finish, fault, time.monotonic() - started)

    def _answer(self, job: Job, finish: str, fault: Fault | None, took_s: float) -> Response:
        ids = job.answer.ids[: job.stopped_at]
        reason: dict[str, Any] | None = {"type": "stop", "matched": job.answer.matched}
        if finish == "length":
            reason = {"type": "length", "length": len(ids)}
        elif finish == "abort":
            reason = {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}
        meta: dict[str, Any] = {
            "id": job.rid,
            "finish_reason": reason,
            "prompt_tokens": len(job.prompt_ids),
            "weight_version": self._told["weight_version"],
            "completion_tokens": len(ids),
            "cached_tokens": 0,
            "e2e_latency": took_s,
        }
        queued_abort = finish == "abort" and job.started_at_tokens is None
        if queued_abort:
            old = self.settings.emulate == "0.5.3"
            reason = meta["finish_reason"] = {
                "type": "abort",
                "message": "Abort before prefill" if old else "Abort in waiting queue",
            }
            del meta["prompt_tokens"], meta["cached_tokens"]
        body: dict[str, Any] = {"text": "", "output_ids": ids, "meta_info": meta}
        if queued_abort and self.settings.emulate == "0.5.3":
            del body["output_ids"]
        elif self.settings.emulate == "0.5.3" and finish != "abort":
            body["output_ids"] = job.prompt_ids[-5:] + ids
        return _spoilt(body, fault, job) if fault is not None else _json(body)


def _spoilt(body: dict[str, Any], fault: Fault, job: Job) -> Response:
    """An answer after a fault has been at it."""
    meta, kind = body["meta_info"], fault.kind
    if kind == "garbage":
        return Response(200, b"<html><body>502 Bad Gateway</body></html>", "text/html")
    if kind == "empty":
        return Response(200, b"")
    if kind == "array":
        return _json([body])
    if kind == "no-meta":
        del body["meta_info"]
    elif kind == "nan":
        meta["finish_reason"] = {"type": "stop", "matched": "NaN happened"}
    elif kind == "no-finish":
        meta["finish_reason"] = None
    elif kind == "abort":
        body["output_ids"] = body["output_ids"][: len(body["output_ids"]) // 2]
        meta["completion_tokens"] = len(body["output_ids"])
        meta["finish_reason"] = {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}
    elif kind == "truncate":
        meta["prompt_tokens"] -= 1
    elif kind == "tail":
        body["output_ids"] = job.prompt_ids[-5:] + body["output_ids"]
    elif kind == "extra":
        body["output_ids"] = [job.prompt_ids[-1] ^ 1, *body["output_ids"]]
    elif kind == "cut":
        return Response(200, json.dumps(body).encode()[:-20])
    return _json(body)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m console.demo.engine", description="A stand-in for SGLang.")
    default = EngineSettings()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--model-path", default=None, help="vocabulary and end-of-sequence ids are read there")
    parser.add_argument("--served-name", default=None)
    parser.add_argument("--seed", type=int, default=default.seed)
    parser.add_argument("--mean-tokens", type=float, default=default.mean_tokens)
    parser.add_argument("--sigma", type=float, default=default.sigma)
    parser.add_argument("--request-tokens-s", "--tokens-per-s", type=float, default=default.request_tokens_s)
    parser.add_argument("--batch-tokens-s", type=float, default=default.batch_tokens_s)
    parser.add_argument("--max-running", type=int, default=default.max_running)
    parser.add_argument("--max-queued", type=int, default=None)
    parser.add_argument("--context-length", type=int, default=default.context_length)
    parser.add_argument("--api-key", default=None)
    parser.add_argument("--emulate", choices=sorted(VERSIONS), default=default.emulate)
    parser.add_argument("--no-metrics", dest="metrics", action="store_false")
    parser.add_argument("--health-s", type=float, default=default.health_s)
    parser.add_argument("--load-s", type=float, default=0.0, help="seconds it answers 503, as while a model loads")
    parser.add_argument("--weight-version", default=default.weight_version)
    parser.add_argument("--faults", default="[]", help="JSON array of faults")
    return parser


async def _serve(settings: EngineSettings, vocabulary: Vocabulary, faults: Faults, host: str, port: int) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    server = await serve(Engine(settings, vocabulary, faults).handle, host, port)
    bound = server.sockets[0].getsockname()[1]
    print(json.dumps({"url": f"http://{host}:{bound}", "pid": os.getpid()}), flush=True)
    await stopping.wait()
    server.close()


def main(argv: list[str] | None = None) -> int:
    """Run a stand-in engine until SIGTERM."""
    arguments = vars(_arguments().parse_args(argv))
    host, port, raw = arguments.pop("host"), arguments.pop("port"), json.loads(arguments.pop("faults"))
    model_path = arguments.pop("model_path") or None
    settings = replace(EngineSettings(**arguments), model_path=model_path or EngineSettings.model_path)
    faults = Faults()
    for value in raw:
        faults.add(value)
    vocabulary = read_vocabulary(Path(model_path)) if model_path else Vocabulary()
    asyncio.run(_serve(settings, vocabulary, faults, host, port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
