"""What an engine says of itself: health, model, version, load. Standard library only; each probe has its own deadline.

The endpoints differ by version and behind a router, and any of them can hang while the others answer: what cannot be
learned is None, never 0. `server_info` contains the engine's API key: only named fields are taken from it.
Endpoints by version: SGLang 0.4.6 to 0.5.23, sglang-router 0.3.2.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from remote.shorthttp import Http, HttpError
from remote.text import clean

HEALTH_LIMIT_S = 25.0
"""/health itself waits up to 20 s for the scheduler."""
HEALTH_EVERY_S = 15.0
"""Health calls pile up in a busy engine: poll no more often than this."""
QUICK_LIMIT_S = 4.0
_LARGEST_FIGURE = 1e18
"""Python reads NaN and Infinity as JSON, and a metric may say 1e999: beyond this a figure says nothing."""

_METRIC = re.compile(r"^sglang[:_](\w+)(?:\{[^}]*\})? ([0-9eE.+-]+)$", re.M)


@dataclass(frozen=True)
class EngineFacts:
    """One look at an engine; the fields are those of `engine` in the snapshot.

    `health` is `healthy`, `unhealthy`, `loading`, `down` or `unknown`; `router` says that it stands before `workers`.
    `token_usage` is between 0 and 1, `tokens_s` the whole engine's speed, `generated_tokens` its counter where it has one.
    """

    url: str
    health: str = "unknown"
    detail: str = ""
    model_path: str | None = None
    served_name: str | None = None
    version: str | None = None
    weight_version: str | None = None
    context_length: int | None = None
    max_total_tokens: int | None = None
    max_running: int | None = None
    running: int | None = None
    queued: int | None = None
    token_usage: float | None = None
    tokens_s: float | None = None
    generated_tokens: int | None = None
    used_tokens: int | None = None
    router: bool = False
    workers: tuple[str, ...] = ()
    unauthorized: bool = False
    at: float | None = None

    def to_json(self) -> dict[str, Any]:
        """`engine` of the snapshot (`since` is the agent's to add)."""
        return {
            "url": self.url,
            "health": self.health,
            "detail": self.detail,
            "model_path": self.model_path,
            "served_name": self.served_name,
            "version": self.version,
            "weight_version": self.weight_version,
            "context_length": self.context_length,
            "running": self.running,
            "queued": self.queued,
            "token_usage": self.token_usage,
            "tokens_s": self.tokens_s,
            "router": self.router,
            "workers": list(self.workers),
            "at": self.at,
        }


def _text(value: object) -> str | None:
    return clean(value, 300) if isinstance(value, str) and value else None


def _count(value: object) -> int | None:
    number = _figure(value)
    return int(number) if number is not None else None


def _figure(value: object) -> float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) < _LARGEST_FIGURE:
        return None
    return float(value)


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def probe_health(url: str, api_key: str | None = None, limit_s: float = HEALTH_LIMIT_S) -> tuple[str, str]:
    """(health, what is behind it). An engine that loads refuses connections or answers 503. Never raises."""
    try:
        answer = Http(url, api_key, limit_s).get("/health")
    except HttpError as error:
        return ("down" if error.refused else "unhealthy"), str(error)
    if answer.status == 200:
        return "healthy", ""
    if answer.status == 503:
        return "loading", "/health answers 503: it is loading, shutting down or stuck"
    return "unknown", f"/health answers {answer.status}"


def probe_model(url: str, api_key: str | None = None, limit_s: float = QUICK_LIMIT_S) -> EngineFacts:
    """Model, names, versions and limits. Raises HttpError when nobody answers."""
    http = Http(url, api_key, limit_s)
    facts = EngineFacts(url)
    answer = http.get("/model_info")
    if answer.status == 404:
        answer = http.get("/get_model_info")
    if answer.status in (401, 403):
        return replace(facts, unauthorized=True, detail=f"the engine answers {answer.status}: it wants another API key")
    info = _object(answer.json())
    facts = replace(
        facts,
        model_path=_text(info.get("model_path")),
        served_name=_text(info.get("served_model_name")),
        weight_version=_text(info.get("weight_version")),
    )
    for part in (_server, _models, _router):
        try:
            facts = part(http, facts)
        except HttpError as error:
            facts = replace(facts, detail=facts.detail or str(error))
    return facts


def _server(http: Http, facts: EngineFacts) -> EngineFacts:
    answer = http.get("/server_info")
    if answer.status == 404:
        answer = http.get("/get_server_info")
    info = _object(answer.json())
    if info.get("router_manager"):
        return replace(facts, router=True)
    return replace(
        facts,
        version=_text(info.get("version")),
        served_name=facts.served_name or _text(info.get("served_model_name")),
        context_length=_count(info.get("context_length")),
        max_total_tokens=_count(info.get("max_total_num_tokens")),
        max_running=_count(info.get("max_running_requests")),
    )


def _models(http: Http, facts: EngineFacts) -> EngineFacts:
    data = _object(http.get("/v1/models").json()).get("data")
    first = _object(data[0]) if isinstance(data, list) and data else {}
    return replace(
        facts,
        served_name=facts.served_name or _text(first.get("id")),
        context_length=facts.context_length or _count(first.get("max_model_len")),
    )


def _router(http: Http, facts: EngineFacts) -> EngineFacts:
    if facts.version is not None:
        return facts
    workers = _object(http.get("/workers").json()).get("workers")
    if not isinstance(workers, list):
        return facts
    found = [_object(worker) for worker in workers]
    urls = tuple(worker["url"] for worker in found if isinstance(worker.get("url"), str))
    paths = {_text(_object(worker.get("metadata")).get("model_path")) for worker in found} - {None}
    model_path = facts.model_path or (paths.pop() if len(paths) == 1 else None)
    return replace(facts, router=True, workers=urls, model_path=model_path)


def probe_load(url: str, api_key: str | None = None, limit_s: float = QUICK_LIMIT_S) -> EngineFacts:
    """Running and queued requests, token usage, speed: /metrics, else /v1/loads, else /get_load.

    What none of them says is None. Raises HttpError when nobody answers.
    """
    http = Http(url, api_key, limit_s)
    facts = EngineFacts(url)
    answer = http.get("/metrics")
    if answer.status == 200:
        found = _from_metrics(answer.body.decode("utf-8", "replace"), facts)
        if found.running is not None:
            return found
    loads = _object(http.get("/v1/loads").json()).get("loads")
    if isinstance(loads, list) and loads:
        return _from_loads([_object(load) for load in loads], facts)
    load = http.get("/get_load").json()
    if isinstance(load, list) and load:
        return _from_load([_object(row) for row in load], facts)
    return facts


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _from_metrics(text: str, facts: EngineFacts) -> EngineFacts:
    series: dict[str, list[float | None]] = {}
    for name, raw in _METRIC.findall(text):
        try:
            series.setdefault(name, []).append(_figure(float(raw)))
        except ValueError:
            continue

    def total(name: str) -> float | None:
        return _sum(series.get(name, []))

    usage = [value for value in series.get("token_usage", []) if value is not None]
    return replace(
        facts,
        running=_count(total("num_running_reqs")),
        queued=_count(total("num_queue_reqs")),
        token_usage=max(usage) if usage else None,
        tokens_s=total("gen_throughput"),
        generated_tokens=_count(total("generation_tokens_total")),
        used_tokens=_count(total("num_used_tokens")),
    )


def _from_loads(loads: list[dict[str, Any]], facts: EngineFacts) -> EngineFacts:
    def total(name: str) -> float | None:
        return _sum([_figure(load.get(name)) for load in loads])

    usage = [value for value in (_figure(load.get("token_usage")) for load in loads) if value is not None]
    return replace(
        facts,
        running=_count(total("num_running_reqs")),
        queued=_count(total("num_waiting_reqs")),
        token_usage=max(usage) if usage else None,
        tokens_s=total("gen_throughput"),
        used_tokens=_count(total("num_used_tokens")),
    )


def _from_load(rows: list[dict[str, Any]], facts: EngineFacts) -> EngineFacts:
    reqs = _sum([_figure(row.get("num_reqs")) for row in rows])
    waiting = _sum([_figure(row.get("num_waiting_reqs")) for row in rows])
    # num_reqs counts the waiting ones too.
    running = reqs - waiting if reqs is not None and waiting is not None else reqs
    used = _sum([_figure(row.get("num_tokens")) for row in rows])
    return replace(facts, running=_count(running), queued=_count(waiting), used_tokens=_count(used))


def probe_engine(
    url: str, api_key: str | None = None, health_limit_s: float = HEALTH_LIMIT_S, limit_s: float = QUICK_LIMIT_S
) -> EngineFacts:
    """One whole look: health, model and load at once, each with its own deadline. Never raises.

    It takes a second in good health, because /health does, and at most `health_limit_s` or four short probes.
    """

    from concurrent.futures import ThreadPoolExecutor  # the agent has watches instead, and starts sooner without

    def quiet(probe: Callable[[str, str | None, float], EngineFacts]) -> EngineFacts:
        try:
            return probe(url, api_key, limit_s)
        except HttpError as error:
            return EngineFacts(url, detail=str(error))

    with ThreadPoolExecutor(3, thread_name_prefix="engine-probe") as pool:
        health_job = pool.submit(probe_health, url, api_key, health_limit_s)
        model_job, load_job = pool.submit(quiet, probe_model), pool.submit(quiet, probe_load)
        health, detail = health_job.result()
        model, load = model_job.result(), load_job.result()
    return replace(
        model,
        health=health,
        detail=detail or model.detail or load.detail,
        running=load.running,
        queued=load.queued,
        token_usage=load.token_usage,
        tokens_s=load.tokens_s,
        generated_tokens=load.generated_tokens,
        used_tokens=load.used_tokens,
        at=time.time(),
    )


def same_model(served: str | None, wanted: str | None) -> bool | None:
    """Whether the engine serves the model of `--model-path`: the same path, or where paths cannot be compared the same
    last part. None when either is unknown."""
    if not served or not wanted:
        return None
    if served.rstrip("/") == wanted.rstrip("/"):
        return True
    return served.rstrip("/").rsplit("/", 1)[-1] == wanted.rstrip("/").rsplit("/", 1)[-1]
