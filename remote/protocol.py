"""The messages between the console and the agent: JSON-RPC 2.0, one a line, UTF-8.

The agent first prints `\\n<marker> ready {...}\\n`; what a login shell printed before that is
noise. After it each line is one message:

* a request `{"jsonrpc", "id", "method", "params"}` from the console,
* a response with the same `id` and `result`, or `error` whose `data` is `OperatorError.to_json()`,
* a notification from the agent: `snapshot` `[seq, at, whole]`, `patch` `[seq, at, merge patch]`,
  or `tick` `[at]` when nothing changed. `at` is the container's clock, in seconds.

A `patch` applies to the snapshot whose `seq` is one less; a console that holds another one
calls `resync` and gets a whole `snapshot` again. Both ends import this module.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from remote.errors import OperatorError
from remote.text import clean

VERSION = 1
"""Raised when an older console or agent could no longer understand the other."""

MAX_LINE_BYTES = 8 << 20
"""No message is longer; a longer line is a fault of the sender and is refused."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
OPERATOR_ERROR = -32000
"""JSON-RPC error codes; the last is ours and carries an OperatorError in `data`."""


@dataclass(frozen=True)
class Request:
    """A call; `id` is None for a notification, which gets no answer."""

    id: int | str | None
    method: str
    params: dict[str, Any]


@dataclass(frozen=True)
class Response:
    """The answer to the call `id`: a result, or an error."""

    id: int | str | None
    result: Any
    error: OperatorError | None


@dataclass(frozen=True)
class Notification:
    """A message that the agent sends by itself; `params` is a list."""

    method: str
    params: list[Any]


class BadMessage(OperatorError):
    """A line that is no message. `id` is the request's where it could be read, to answer it."""

    def __init__(self, message: str, rpc_code: int = INVALID_REQUEST, id: int | str | None = None) -> None:
        super().__init__("protocol", message, "the two ends may be of different releases: reconnect to ship this one")
        self.rpc_code = rpc_code
        self.id = id


def encode(message: dict[str, Any]) -> bytes:
    """One message as a line. Lone surrogates from outside become `?`; NaN is a fault and raises ValueError."""
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8", "replace") + b"\n"


def ready_line(marker: str, facts: dict[str, Any]) -> bytes:
    """What the agent prints first: the marker at the start of a line of its own, then its facts."""
    return b"\n" + f"{marker} ready ".encode() + encode(facts)


def parse_ready(line: bytes, marker: str) -> dict[str, Any] | None:
    """The facts of a ready line, or None when the line is noise of the login shell."""
    start = f"{marker} ready ".encode()
    if not line.startswith(start):
        return None
    try:
        facts = json.loads(line[len(start) :])
    except (ValueError, RecursionError):
        return None
    return facts if isinstance(facts, dict) else None


def request(id: int, method: str, params: dict[str, Any]) -> bytes:
    """A call as a line."""
    return encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params})


def result(id: int | str | None, value: Any) -> bytes:
    """A call's result as a line."""
    return encode({"jsonrpc": "2.0", "id": id, "result": value})


def failure(id: int | str | None, error: OperatorError, rpc_code: int = OPERATOR_ERROR) -> bytes:
    """A call's error as a line."""
    body = {"code": rpc_code, "message": error.message, "data": error.to_json()}
    return encode({"jsonrpc": "2.0", "id": id, "error": body})


def snapshot(seq: int, at: float, whole: dict[str, Any]) -> bytes:
    """The whole snapshot as a line."""
    return encode({"jsonrpc": "2.0", "method": "snapshot", "params": [seq, short_time(at), whole]})


def patch(seq: int, at: float, changes: dict[str, Any]) -> bytes:
    """What changed since the snapshot `seq - 1`, as a line."""
    return encode({"jsonrpc": "2.0", "method": "patch", "params": [seq, short_time(at), changes]})


def tick(at: float) -> bytes:
    """Nothing changed, and the agent is alive: at most 64 bytes."""
    return encode({"jsonrpc": "2.0", "method": "tick", "params": [short_time(at)]})


def short_time(at: float) -> float:
    """Tenths of a second are enough for an age and cost six bytes less."""
    return round(at, 1)


def parse_request(line: bytes) -> Request:
    """A line from the console. Raises BadMessage."""
    value = _object(line)
    id, method, params = value.get("id"), value.get("method"), value.get("params", {})
    if isinstance(id, bool) or not isinstance(id, (int, str, type(None))):
        raise BadMessage("a message's id is neither a number nor a string")
    if not isinstance(method, str):
        raise BadMessage("a message names no method", id=id)
    if params is None:
        params = {}
    if not isinstance(params, dict):
        raise BadMessage(f"the parameters of {clean(method, 40)} are no object", INVALID_PARAMS, id)
    return Request(id, method, params)


def parse_from_agent(line: bytes) -> Response | Notification:
    """A line from the agent. Raises BadMessage."""
    value = _object(line)
    method = value.get("method")
    if isinstance(method, str):
        params = value.get("params")
        if not isinstance(params, list):
            raise BadMessage(f"the parameters of {clean(method, 40)} are no list", INVALID_PARAMS)
        return Notification(method, params)
    id = value.get("id")
    if isinstance(id, bool) or not isinstance(id, (int, str, type(None))):
        raise BadMessage("an answer's id is neither a number nor a string")
    error = value.get("error")
    if error is None:
        if "result" not in value:
            raise BadMessage("an answer holds neither a result nor an error", id=id)
        return Response(id, value["result"], None)
    return Response(id, None, _error(error))


def _error(error: Any) -> OperatorError:
    data = error.get("data") if isinstance(error, dict) else None
    if isinstance(data, dict):
        told = OperatorError.from_json(data)
        return OperatorError(clean(told.code, 60), clean(told.message, 2000), clean(told.remedy, 2000), told.exit_code)
    message = error.get("message") if isinstance(error, dict) else error
    return OperatorError("agent", clean(message, 2000))


def _object(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE_BYTES:
        raise BadMessage(f"a message is longer than {MAX_LINE_BYTES >> 20} MiB", PARSE_ERROR)
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise BadMessage(f"a line is no message: {clean(line, 80)}", PARSE_ERROR) from None
    if not isinstance(value, dict):
        raise BadMessage(f"a line is no message: {clean(line, 80)}")
    return value
