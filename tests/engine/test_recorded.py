"""Every answer that real servers gave (0.5.3 to 0.5.23, and the router) through the acceptance rules and the probes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from remote.acceptance import Acceptance, error_of
from remote.engine_errors import ContextLimit, Permanent, Refused, Retryable, WorkerLost
from remote.probe import probe_engine, probe_load

RECORDED = Path(__file__).parent / "recorded"
VOCAB = 2_048
ACCEPTANCE = Acceptance(VOCAB)


def entries() -> Iterator[Any]:
    for path in sorted(RECORDED.glob("*.json")):
        for name, entry in json.loads(path.read_bytes()).items():
            yield pytest.param(entry, id=f"{path.stem}:{name}")


def generates() -> list[Any]:
    return [
        item
        for item in entries()
        if isinstance(item.values[0]["request"], dict) and "input_ids" in item.values[0]["request"]
    ]


def expected_kind(entry: dict[str, Any]) -> str | None:
    """What a person says of a recorded 200: None when it is a good answer."""
    body, ids = entry["body"], entry["request"]["input_ids"]
    if isinstance(body, list):
        return "not-an-answer"
    meta = body["meta_info"]
    if meta["finish_reason"]["type"] == "abort":
        return "aborted"
    if meta["prompt_tokens"] != len(ids):
        return "prompt-truncated"
    if not body["output_ids"]:
        return "empty-answer"
    limit = (entry["request"].get("sampling_params") or {}).get("max_new_tokens", 128)
    if meta["finish_reason"]["type"] == "length" and limit and meta["completion_tokens"] < limit - 8:
        return "cut-short"
    return None


@pytest.mark.parametrize("entry", [item for item in generates() if item.values[0]["status"] == 200])
def test_recorded_answers(entry: dict[str, Any]) -> None:
    ids = entry["request"]["input_ids"]
    limit = (
        (entry["request"].get("sampling_params") or {"max_new_tokens": 128}) if isinstance(entry["body"], dict) else {}
    )
    asked = limit.get("max_new_tokens") or 20 if isinstance(limit, dict) else 1
    kind = expected_kind(entry)
    body = json.dumps(entry["body"]).encode()
    if kind is not None:
        with pytest.raises(Retryable) as caught:
            ACCEPTANCE.accept(body, ids, asked)
        assert caught.value.kind == kind
        return
    answer = ACCEPTANCE.accept(body, ids, asked)
    meta = entry["body"]["meta_info"]
    assert len(answer.output_ids) == meta["completion_tokens"]
    assert answer.finish == meta["finish_reason"]["type"] and answer.matched == meta["finish_reason"].get("matched")
    assert answer.stripped == len(entry["body"]["output_ids"]) - meta["completion_tokens"]
    assert answer.output_ids == entry["body"]["output_ids"][answer.stripped :]


def test_some_recorded_answers_carry_the_prompts_tail() -> None:
    versions = {
        item.id.split(":")[0] for item in generates() if item.values[0]["status"] == 200 and _stripped(item.values[0])
    }
    assert versions == {"0.5.3.post3"}


def _stripped(entry: dict[str, Any]) -> bool:
    if expected_kind(entry) is not None:
        return False
    return len(entry["body"]["output_ids"]) > entry["body"]["meta_info"]["completion_tokens"]


@pytest.mark.parametrize("entry", [item for item in entries() if item.values[0]["status"] >= 400])
def test_recorded_errors(entry: dict[str, Any]) -> None:
    body = entry["body"]
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    error = error_of(entry["status"], raw)
    said = raw.decode()
    if entry["status"] in (401, 404, 405):
        assert isinstance(error, Refused)
    elif "Requested token count exceeds" in said:
        assert isinstance(error, ContextLimit) and error.context_tokens == 4096
    elif entry["status"] == 400 and ("longer than the model" in said or "Input length" in said):
        assert isinstance(error, Permanent) and error.kind == "too-long"
    elif "call_upstream" in said:
        assert isinstance(error, WorkerLost) and error.worker == "http://127.0.0.1:45605"
    elif "read_response_body_failed" in said:
        assert isinstance(error, WorkerLost) and error.worker is None
    elif entry["status"] in (429, 503):
        assert isinstance(error, Retryable) and not error.uses_try
    else:
        assert isinstance(error, Retryable) and error.uses_try
    assert error.detail


def test_an_abort_for_its_length_is_final() -> None:
    told = "Input length (4092 tokens) exceeds the maximum allowed length (4090 tokens). Use a shorter input."
    finish = {"type": "abort", "status_code": 400, "message": told}
    body = json.dumps({"output_ids": [], "meta_info": {"finish_reason": finish, "completion_tokens": 0}}).encode()
    with pytest.raises(Permanent) as caught:
        ACCEPTANCE.accept(body, [1, 2, 3], 20)
    assert caught.value.kind == "too-long" and "4090" in caught.value.detail


@pytest.mark.parametrize("loads", [json.loads, ACCEPTANCE._loads], ids=["standard library", "as installed"])
def test_what_nests_too_deeply_is_no_answer(loads: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = b"[" * 200_000
    monkeypatch.setattr(ACCEPTANCE, "_loads", loads)
    with pytest.raises(Retryable) as caught:
        ACCEPTANCE.accept(deep, [1], 20)
    assert caught.value.kind == "not-json"
    assert isinstance(error_of(500, deep), Retryable)


class Replay(ThreadingHTTPServer):
    """A server that answers GETs with what one version was recorded to answer."""

    daemon_threads = True

    def __init__(self, answers: dict[str, tuple[int, bytes]]) -> None:
        self.answers = answers
        super().__init__(("127.0.0.1", 0), _Handler)
        Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Replay)
        status, body = self.server.answers.get(self.path, (404, b'{"detail":"Not Found"}'))
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        return


PATHS = {
    "model_info": "/model_info",
    "get_model_info": "/get_model_info",
    "server_info": "/server_info",
    "get_server_info": "/get_server_info",
    "v1_models": "/v1/models",
    "get_load_busy": "/get_load",
    "mini_get_load": "/get_load",
    "v1_loads_busy": "/v1/loads",
    "workers": "/workers",
}


@pytest.fixture
def replay(request: pytest.FixtureRequest) -> Iterator[Replay]:
    version: str = request.param
    answers: dict[str, tuple[int, bytes]] = {"/health": (200, b"")}
    for name, entry in reversed(json.loads((RECORDED / f"{version}.json").read_bytes()).items()):
        path = PATHS.get(name) or PATHS.get(name.removeprefix("mini_"))
        if path is not None:
            body = entry["body"]
            answers[path] = (entry["status"], body.encode() if isinstance(body, str) else json.dumps(body).encode())
    server = Replay(answers)
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("replay", ["0.5.9", "0.5.23"], indirect=True)
def test_the_probe_reads_recorded_servers_without_metrics(replay: Replay, request: pytest.FixtureRequest) -> None:
    version = request.node.callspec.params["replay"]
    facts = probe_engine(replay.url)
    assert (facts.health, facts.version, facts.context_length) == ("healthy", version, 4096)
    assert facts.model_path == facts.served_name == "/models/tiny-llama"
    assert facts.running == 4 and facts.queued == 2 and not facts.router
    assert "sk-" not in json.dumps(facts.to_json())


@pytest.mark.parametrize("replay", ["0.5.3.post3"], indirect=True)
def test_the_probe_falls_back_to_the_older_names(replay: Replay) -> None:
    facts = probe_engine(replay.url)
    assert facts.model_path == "/models/tiny-llama" and facts.context_length == 4096
    assert facts.running == 0 and facts.token_usage is None and facts.tokens_s is None


@pytest.mark.parametrize("replay", ["router"], indirect=True)
def test_the_probe_knows_a_router_and_says_unknown(replay: Replay) -> None:
    facts = probe_engine(replay.url)
    assert facts.router and len(facts.workers) == 2 and facts.model_path == "/models/tiny"
    assert facts.running is None and facts.queued is None and facts.version is None and facts.context_length is None


@pytest.mark.parametrize(("version", "running", "queued"), [("0.5.9", 4, 2), ("0.5.23", 4, 2)])
def test_recorded_metrics(version: str, running: int, queued: int) -> None:
    text = (RECORDED / f"metrics_{version}_busy.prom").read_bytes()
    server = Replay({"/metrics": (200, text)})
    try:
        facts = probe_load(server.url)
    finally:
        server.shutdown()
        server.server_close()
    assert (facts.running, facts.queued) == (running, queued)
    assert facts.tokens_s is not None and facts.tokens_s > 1_000
    assert facts.token_usage is not None and 0 < facts.token_usage < 1
    assert facts.generated_tokens is not None and facts.generated_tokens > 0


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/get_load", b'[{"num_reqs": NaN, "num_waiting_reqs": 1e999, "num_tokens": Infinity}]'),
        ("/v1/loads", b'{"loads":[{"num_running_reqs":NaN,"token_usage":Infinity,"gen_throughput":-Infinity}]}'),
        ("/metrics", b"sglang:num_running_reqs 3\nsglang:token_usage 1e999\nsglang:gen_throughput 1e999\n"),
    ],
)
def test_a_figure_that_is_none_is_unknown(path: str, body: bytes) -> None:
    server = Replay({path: (200, body)})
    try:
        facts = probe_load(server.url)
    finally:
        server.shutdown()
        server.server_close()
    assert (facts.queued, facts.token_usage, facts.tokens_s, facts.used_tokens) == (None, None, None, None)
    assert facts.running == (3 if path == "/metrics" else None)
