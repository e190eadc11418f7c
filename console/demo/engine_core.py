"""The stand-in engine itself: requests taken in, refused as SGLang refuses them, decoded, aborted and answered."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import uuid
from typing import Any

from console.demo.engine_decode import Job, Scheduler, Speaker, Vocabulary
from console.demo.engine_faults import Fault, Faults, spoilt
from console.demo.engine_http import Request, Response, Routes, json_response
from console.demo.engine_pages import Pages
from console.demo.engine_settings import EngineSettings

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


def _error(message: str, status: int = 400) -> Response:
    return json_response({"error": {"message": message}}, status)


def _refused(message: str, kind: str, status: int) -> Response:
    """The other shape of SGLang's errors: that of what is refused before its own handler runs."""
    return json_response({"object": "error", "message": message, "type": kind, "param": None, "code": status}, status)


class Engine:
    """The state of one stand-in engine and its handlers; `handle` is what the HTTP server calls."""

    def __init__(self, settings: EngineSettings, vocabulary: Vocabulary, faults: Faults) -> None:
        self._settings = settings
        self._faults = faults
        self._vocabulary = vocabulary
        self._speaker = Speaker(vocabulary, settings.seed, settings.mean_tokens, settings.sigma)
        self._scheduler = Scheduler(settings.max_running, settings.request_tokens_s, settings.batch_tokens_s)
        self._pages = Pages(settings, self._scheduler)
        self._seen: dict[str, Any] = {"requests": 0, "aborts": 0, "rids": [], "sampling": None}
        self._routes: Routes = {
            **self._pages.routes(),
            ("POST", "/generate"): self._generate,
            ("PUT", "/generate"): self._generate,
            ("POST", "/abort_request"): self._abort,
            ("POST", "/_fault"): self._fault,
            ("GET", "/_seen"): self._counts,
        }

    async def handle(self, request: Request) -> Response | None:
        """Answer one request; None closes the connection without an answer."""
        key = self._settings.api_key
        if key and request.path not in _OPEN_PATHS and request.headers.get("authorization") != f"Bearer {key}":
            return json_response({"error": "Unauthorized"}, 401)
        route = self._routes.get((request.method, request.path))
        if route is not None:
            return await route(request)
        if any(path == request.path for _, path in self._routes):
            return json_response({"detail": "Method Not Allowed"}, 405)
        return json_response({"detail": "Not Found"}, 404)

    # ---- for tests alone

    async def _fault(self, request: Request) -> Response:
        value = json.loads(request.body)
        if value.get("kind") == "set":
            self._pages.told.update({name: item for name, item in value.items() if name != "kind"})
        else:
            try:
                self._faults.add(value)
            except ValueError as error:
                return _error(str(error))
        return json_response({})

    async def _counts(self, _: Request) -> Response:
        running = [job.rid for job in self._scheduler.running.values()]
        return json_response(self._seen | {"running": running, "waiting": [job.rid for job in self._scheduler.waiting]})

    def _see(self, rid: str, sampling: dict[str, Any]) -> None:
        self._seen["requests"] += 1
        self._seen["sampling"] = sampling
        self._seen["rids"] = [*self._seen["rids"][-999:], rid]

    # ---- generating

    async def _abort(self, request: Request) -> Response:
        try:
            value = json.loads(request.body)
        except ValueError:
            return _refused("1 validation error", "Bad Request", 400)
        self._seen["aborts"] += 1
        if value.get("abort_all"):
            self._scheduler.abort("")
        elif any(job.rid == value.get("rid") for job in self._scheduler.jobs()):
            # The real server passes a rid on only when it knows it whole; the scheduler then matches by prefix.
            self._scheduler.abort(value["rid"])
        return Response(200)

    def _refusal(self, ids: list[Any], sampling: dict[str, Any], rid: str) -> Response | None:
        """What a request is refused with before it reaches the scheduler; ends the process where the real one dies."""
        version, context = self._settings.emulate, self._settings.context_length
        unknown = next((key for key in sampling if key not in _SAMPLING_KEYS), None)
        if unknown is not None:
            if version == "0.5.23":
                return json_response(
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
        if self._settings.max_queued is not None and queued >= self._settings.max_queued:
            return _refused("The request queue is full.", "503", 503)
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
            return _refused("1 validation error:\n", "Bad Request", 400)
        if self._pages.loading:
            return Response(503)
        rid = value.get("rid") or uuid.uuid4().hex
        self._see(rid, sampling)
        fault = self._faults.strike(ids)
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
        answer = self._speaker.answer(ids, self._settings.context_length - len(ids) if limit is None else limit)
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
            "weight_version": self._pages.told["weight_version"],
            "completion_tokens": len(ids),
            "cached_tokens": 0,
            "e2e_latency": took_s,
        }
        queued_abort = finish == "abort" and job.started_at_tokens is None
        if queued_abort:
            old = self._settings.emulate == "0.5.3"
            reason = meta["finish_reason"] = {
                "type": "abort",
                "message": "Abort before prefill" if old else "Abort in waiting queue",
            }
            del meta["prompt_tokens"], meta["cached_tokens"]
        body: dict[str, Any] = {"text": "", "output_ids": ids, "meta_info": meta}
        if queued_abort and self._settings.emulate == "0.5.3":
            del body["output_ids"]
        elif self._settings.emulate == "0.5.3" and finish != "abort":
            body["output_ids"] = job.prompt_ids[-5:] + ids
        return spoilt(body, fault, job.prompt_ids) if fault is not None else json_response(body)
