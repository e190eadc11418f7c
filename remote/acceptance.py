"""Which answers of the engine are kept, and how: the acceptance rules of SGLang's `/generate`.

An answer that looks right and is not would train the drafter on noise: everything that an aborted, truncated or broken
request can look like is refused here, by name. Sources: SGLang's response format as measured on 0.5.3 to 0.5.23.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from remote.engine_errors import ContextLimit, EngineError, Permanent, Refused, Retryable, WorkerLost
from remote.text import clean

_TAIL_IDS = 5
"""SGLang 0.5.1 to 0.5.4.post2 put up to this many of the prompt's last ids before the answer."""
_CONTEXT_SLACK = 8
"""The engine keeps a few tokens of its context to itself: an answer may end that much before the context does."""
_LENGTH_WORDS = re.compile(
    r"longer than the model's context|maximum context length|exceeds the maximum allowed length|input length", re.I
)
_CONTEXT = re.compile(r"maximum context length of (\d+) tokens.*?(\d+) tokens from the input", re.S)
_ROUTER_LOST = frozenset(
    (
        *("call_upstream_request_error", "call_upstream_connection_failed", "call_upstream_request_failed"),
        *("call_upstream_timeout", "call_upstream_body_error", "call_upstream_decode_error"),
        *("read_response_failed", "read_response_body_failed"),
    )
)
"""What sglang-router puts under `error.code`, with status 500 or 504, when its connection to an engine breaks, is refused or
outlasts its time limit. As seen of 0.3.2, and in the source of later ones."""
_WORKER = re.compile(r"\bURL: (https?://[^\s/]+)")


def _loads() -> Callable[[bytes], Any]:
    try:
        import orjson
    except ImportError:
        return json.loads
    return orjson.loads


@dataclass(frozen=True)
class Answer:
    """An answer that is kept. `output_ids` are the model's own ids with the matched end; `finish` is `stop` or `length`.

    `stripped` ids of the prompt's tail were taken off: a fault of the server that is reported.
    """

    output_ids: list[int]
    prompt_tokens: int
    finish: str
    matched: int | str | None
    weight_version: str | None
    stripped: int = 0


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _reject(kind: str, detail: str) -> Retryable:
    return Retryable(kind, detail, uses_try=True)


class Acceptance:
    """The rules for one run: `vocab_size` bounds every id."""

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size
        self._loads = _loads()

    def accept(self, body: bytes, prompt_ids: Sequence[int], max_new_tokens: int) -> Answer:
        """The answer in a 200 body. Raises Retryable, which uses a try, naming what is wrong with it; Permanent when it was
        aborted for its length."""
        try:
            value = self._loads(body)
        except (ValueError, RecursionError):
            said = clean(body[:80]) if body else "nothing"
            raise _reject("not-json", f"the engine answered 200 with {said} instead of JSON") from None
        if not isinstance(value, dict):
            raise _reject("not-an-answer", f"the engine answered with a JSON {type(value).__name__}, not an object")
        meta = value.get("meta_info")
        if not isinstance(meta, dict):
            raise _reject("no-meta-info", "the answer has no meta_info")
        finish, matched = self._finish(meta.get("finish_reason"))
        if meta.get("prompt_tokens") != len(prompt_ids):
            told = clean(meta.get("prompt_tokens"), 20)
            raise _reject("prompt-truncated", f"{len(prompt_ids)} prompt tokens were sent, the engine counts {told}")
        ids, stripped = self._ids(value.get("output_ids"), meta.get("completion_tokens"), prompt_ids)
        if finish == "length" and len(ids) < max_new_tokens - _CONTEXT_SLACK:
            raise _reject("cut-short", f"cut by length after {len(ids)} tokens, {max_new_tokens} were asked for")
        weights = meta.get("weight_version")
        return Answer(
            ids, len(prompt_ids), finish, matched, clean(weights, 100) if weights is not None else None, stripped
        )

    def _finish(self, reason: object) -> tuple[str, int | str | None]:
        if not isinstance(reason, dict):
            raise _reject("no-finish-reason", f"the finish reason is {clean(json.dumps(reason), 60)}")
        kind, matched = reason.get("type"), reason.get("matched")
        if kind == "abort":
            if _LENGTH_WORDS.search(str(reason.get("message"))):
                raise Permanent("too-long", clean(reason.get("message"), 200))
            raise Retryable("aborted", f"somebody aborted it: {clean(reason.get('message'), 80)}", uses_try=False)
        if kind == "stop" and matched == "NaN happened":
            raise _reject("nan", "the engine sampled NaN")
        if kind not in ("stop", "length"):
            raise _reject("no-finish-reason", f"the finish reason is of type {clean(kind, 40)}")
        return kind, matched if _is_int(matched) or isinstance(matched, str) else None

    def _ids(self, ids: object, count: object, prompt_ids: Sequence[int]) -> tuple[list[int], int]:
        if not isinstance(ids, list):
            raise _reject(
                "no-output-ids", "the answer has no output_ids (SGLang before 0.5.1 needs --skip-tokenizer-init)"
            )
        if not _is_int(count):
            raise _reject("no-meta-info", "the answer has no completion_tokens")
        extra = len(ids) - count  # type: ignore[operator]
        if 1 <= extra <= _TAIL_IDS and len(prompt_ids) >= extra and ids[:extra] == list(prompt_ids[-extra:]):
            ids = ids[extra:]
        elif extra:
            raise _reject("id-count", f"{len(ids)} output_ids for {count} completion tokens")
        if not ids:
            raise _reject("empty-answer", "the answer has no tokens")
        # One pass over builtins: this runs for every token of the run.
        if set(map(type, ids)) != {int} or min(ids) < 0 or max(ids) >= self._vocab_size:
            raise _reject("bad-ids", f"output_ids are not all integers below {self._vocab_size}")
        return ids, max(0, extra)


def _error_body(body: bytes) -> tuple[str, str | None]:
    """(what an error body says, its `error.code`): SGLang has four shapes of it, and a proxy sends HTML."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return (clean(body[:300].strip(), 200) if body.strip() else "an empty body"), None
    said: object = value
    code: object = None
    if isinstance(value, dict):
        error = value.get("error")
        inner = error.get("message") if isinstance(error, dict) else error
        code = error.get("code") if isinstance(error, dict) else None
        said = inner or value.get("message") or value.get("detail") or value
    return clean(said, 300), code if isinstance(code, str) else None


def error_of(status: int, body: bytes) -> EngineError:
    """What a status other than 200 means."""
    said, code = _error_body(body)
    if code in _ROUTER_LOST:
        named = _WORKER.search(said)
        return WorkerLost(f"the router answers {status} ({said})", named[1] if named else None)
    if status in (401, 403):
        return Refused("unauthorized", f"the engine answers {status} ({said}): it wants another API key")
    if status in (404, 405):
        return Refused("no-generate", f"the engine answers {status} to /generate ({said}): that is no SGLang server")
    if status in (400, 413, 422):
        context = _CONTEXT.search(said)
        if context is not None and int(context[2]) < int(context[1]):
            return ContextLimit(said, int(context[1]))
        if status == 413 or _LENGTH_WORDS.search(said):
            return Permanent("too-long", said)
        return Retryable(f"http-{status}", said, uses_try=True)
    if status in (429, 502, 503, 504):
        return Retryable("engine-busy", f"the engine answers {status} ({said})", uses_try=False)
    if status >= 500 or status == 408:
        return Retryable(f"http-{status}", f"the engine answers {status} ({said})", uses_try=True)
    if status < 400:
        return Refused("unexpected-status", f"the engine answers {status} to /generate: is the address right?")
    return Retryable(f"http-{status}", said, uses_try=True)
