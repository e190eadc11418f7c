"""Faults that the stand-in engine shows on demand, so that a test meets what real users met.

A fault is a JSON object, given at the start (`--faults '[…]'`) or posted to `/_fault` while it runs:
`{"kind": K, "count": N, "token": T, …}`. It strikes the next `count` requests to /generate (1 when not given, -1 for
ever), only those whose prompt holds `token` when that is given.

| kind | what happens |
|---|---|
| `crash` | the process ends at once, every connection with it |
| `hang` | the request is taken in and never ends by itself |
| `disconnect` | the connection closes without an answer |
| `status` | `status` and `body` are answered (`{"error":{"message":"synthetic"}}` when not given) |
| `garbage`, `empty`, `no-meta`, `array` | 200 with HTML, with nothing, without `meta_info`, with an array |
| `nan` | the finish reason says `NaN happened` |
| `abort` | 200 with part of the answer, as when somebody else aborted it |
| `truncate` | the prompt is silently cut, as under `--allow-auto-truncate` |
| `tail`, `extra` | `output_ids` begins with the prompt's last ids (0.5.1 to 0.5.4), with foreign ids |
| `no-finish` | `finish_reason` is null |
| `cut` | the body ends in the middle |

Not tied to a request: `{"kind": "set", "model_path": …, "weight_version": …, "loading": true, "unhealthy": true}`
changes what the engine says of itself, and `{"kind": "clear"}` takes every fault back.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from console.demo.engine_http import Response, json_response

KINDS = frozenset(
    (
        *("crash", "hang", "disconnect", "status", "abort", "nan", "truncate", "tail", "extra"),
        *("garbage", "empty", "no-meta", "no-finish", "array", "cut"),
    )
)


@dataclass
class Fault:
    """One fault that waits for requests."""

    kind: str
    count: int = 1
    token: int | None = None
    status: int = 500
    body: str = '{"error":{"message":"synthetic"}}'

    def strikes(self, prompt_ids: Sequence[int]) -> bool:
        """Whether it strikes this request; a strike uses one of its count."""
        if self.count == 0 or (self.token is not None and self.token not in prompt_ids):
            return False
        self.count -= 1 if self.count > 0 else 0
        return True


@dataclass
class Faults:
    """The faults now set."""

    waiting: list[Fault] = field(default_factory=list)

    def add(self, value: dict[str, Any]) -> None:
        """Take one in. Raises ValueError for a kind that does not exist."""
        kind = value.get("kind")
        if kind == "clear":
            self.waiting.clear()
            return
        if kind not in KINDS:
            raise ValueError(f"no such fault: {kind!r}; one of {', '.join(sorted(KINDS))}")
        known = {name: value[name] for name in ("count", "token", "status", "body") if name in value}
        self.waiting.append(Fault(kind, **known))

    def strike(self, prompt_ids: Sequence[int]) -> Fault | None:
        """The fault that strikes a request, if one does."""
        return next((fault for fault in self.waiting if fault.strikes(prompt_ids)), None)


def spoilt(body: dict[str, Any], fault: Fault, prompt_ids: Sequence[int]) -> Response:
    """The answer `body` after a fault has been at it; a fault of another kind leaves it as it is."""
    meta, kind = body["meta_info"], fault.kind
    if kind == "garbage":
        return Response(200, b"<html><body>502 Bad Gateway</body></html>", "text/html")
    if kind == "empty":
        return Response(200, b"")
    if kind == "array":
        return json_response([body])
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
        body["output_ids"] = [*prompt_ids[-5:], *body["output_ids"]]
    elif kind == "extra":
        body["output_ids"] = [prompt_ids[-1] ^ 1, *body["output_ids"]]
    elif kind == "cut":
        return Response(200, json.dumps(body).encode()[:-20])
    return json_response(body)
