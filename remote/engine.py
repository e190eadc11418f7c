"""The client of SGLang's `/generate`: one attempt of one prompt, and its abort.

httpx, in several small pools: one pool scans itself on every request, which at 256 in flight costs ten times the
parsing. Idle connections are dropped after two seconds, because the server closes its own after five and a request sent
into that moment is lost. There is no read timeout by the clock: an answer takes as long as it takes; the watchdog ends
what outlives its deadline.
"""

from __future__ import annotations

import importlib.util
import json
import ssl
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from remote.acceptance import Acceptance, Answer, error_of
from remote.engine_errors import EngineDown, Retryable
from remote.errors import OperatorError
from remote.text import clean

if TYPE_CHECKING:
    import httpx

POOL_CONNECTIONS = 4
KEEP_ALIVE_S = 2.0
_CONNECT_S = 10.0
_WRITE_S = 60.0
_ABORT_S = 5.0
_SMALL_POOL = 2
LARGEST_BYTES = 64 << 20
"""Of one answer: a hundred thousand ids and their text are two. What sends more is no engine, and would fill the memory."""


def _dumps() -> Callable[[Any], bytes]:
    try:
        import orjson
    except ImportError:
        return lambda value: json.dumps(value, separators=(",", ":")).encode()
    return orjson.dumps


def import_httpx() -> Any:
    """httpx, or one line that says how to get it. Raises OperatorError (`no-httpx`)."""
    try:
        import httpx
    except ImportError:
        raise OperatorError(
            "no-httpx", "this Python has no httpx, which generate needs", "run: python3 -m pip install httpx"
        ) from None
    if importlib.util.find_spec("sniffio") is None:
        # httpcore tries `import sniffio` with every request; where it is missing the search through sys.path costs more
        # than the request. None in sys.modules makes that import fail at once, with the same result.
        sys.modules["sniffio"] = None  # type: ignore[assignment]
    return httpx


class EngineClient:
    """Requests to one engine (or its router) at `url`. Use inside an event loop; `await close()` at the end.

    `concurrency` sizes the pools; `api_key` goes into one header and nowhere else. Raises OperatorError (`no-httpx`).
    """

    def __init__(self, url: str, api_key: str | None, concurrency: int, acceptance: Acceptance) -> None:
        self._httpx = import_httpx()
        self._base = url.rstrip("/")
        self._acceptance = acceptance
        self._dumps = _dumps()
        # Loading the certificates takes a fifth of a second: once, and only where they are looked at.
        tls = self._base.startswith("https:")
        self._tls = self._httpx.create_ssl_context() if tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        headers = {"content-type": "application/json", "accept": "application/json"}
        if api_key:
            headers["authorization"] = f"Bearer {api_key}"
        self._headers = headers
        pools = -(-concurrency // POOL_CONNECTIONS)
        self._pools = [self._pool(POOL_CONNECTIONS) for _ in range(pools)]
        self._load = [0] * pools
        self._aborts = self._pool(_SMALL_POOL)
        self.workers: tuple[str, ...] = ()
        """The engines behind a router; empty when `url` is an engine itself."""

    def _pool(self, connections: int) -> httpx.AsyncHTTPTransport:
        limits = self._httpx.Limits(
            max_connections=connections, max_keepalive_connections=connections, keepalive_expiry=KEEP_ALIVE_S
        )
        # The transport itself, not a Client: cookies, redirects and proxies have no place here, and cost CPU.
        transport: httpx.AsyncHTTPTransport = self._httpx.AsyncHTTPTransport(verify=self._tls, limits=limits)
        return transport

    async def close(self) -> None:
        """Close every connection."""
        for transport in (*self._pools, self._aborts):
            await transport.aclose()

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Mapping[str, Any], max_new_tokens: int, rid: str
    ) -> Answer:
        """One attempt. Every id must be within the vocabulary: one that is not kills the whole server.

        Raises an EngineError: Permanent, Retryable, ContextLimit, EngineDown or Refused.
        """
        body = self._dumps(
            {
                "rid": rid,
                "input_ids": prompt_ids,
                "sampling_params": {**sampling, "max_new_tokens": max_new_tokens},
                "stream": False,
            }
        )
        index = min(range(len(self._load)), key=self._load.__getitem__)
        self._load[index] += 1
        try:
            status, answer = await self._post(self._pools[index], "/generate", body, None)
        finally:
            self._load[index] -= 1
        if status != 200:
            raise error_of(status, answer)
        return self._acceptance.accept(answer, prompt_ids, max_new_tokens)

    async def abort(self, rid: str) -> bool:
        """Ask the engine to end one request by its full rid; whether it is certain that it runs no longer.

        The engine answers 200 to a rid it does not know. A router has no such route: then each of `workers` is asked, and
        one that is silent may be the one that runs it. Where nobody listens, nothing runs; if nobody listens anywhere, it
        may be the way there that is broken.
        """
        body = self._dumps({"rid": rid})
        taken = [await self._abort_at(base, body) for base in self.workers or (self._base,)]
        return True in taken and False not in taken

    async def _abort_at(self, base: str, body: bytes) -> bool | None:
        """Whether the engine there took it; None when nobody listens."""
        try:
            status, _ = await self._post(self._aborts, "/abort_request", body, _ABORT_S, base)
        except EngineDown as error:
            return False if error.in_flight else None
        except Retryable:
            return False
        return status == 200

    async def _post(
        self, transport: httpx.AsyncHTTPTransport, path: str, body: bytes, read_s: float | None, base: str | None = None
    ) -> tuple[int, bytes]:
        httpx = self._httpx
        timeout = {"connect": _CONNECT_S, "read": read_s, "write": _WRITE_S, "pool": None}
        try:
            request = httpx.Request(
                "POST",
                (base or self._base) + path,
                headers=self._headers,
                content=body,
                extensions={"timeout": timeout},
            )
            response = await transport.handle_async_request(request)
            try:
                return response.status_code, await _body(response)
            finally:
                await response.aclose()
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise EngineDown(clean(error) or "no connection", in_flight=False) from None
        except httpx.TransportError as error:
            kind = type(error).__name__
            raise EngineDown(f"{kind}: {clean(error) or 'the connection broke'}", in_flight=True) from None
        except httpx.InvalidURL as error:
            raise OperatorError(
                "usage", f"--engine-url {clean(self._base)}: {clean(error)}", "write http://127.0.0.1:30000"
            ) from None


async def _body(response: httpx.Response) -> bytes:
    """The bytes as they came: nobody asked for an encoding, and one that is wrong must not end more than this answer."""
    parts: list[bytes] = []
    left = LARGEST_BYTES
    async for part in response.aiter_raw():
        parts.append(part)
        left -= len(part)
        if left < 0:
            raise Retryable("too-large", f"the engine answers with more than {LARGEST_BYTES >> 20} MiB", uses_try=True)
    return b"".join(parts)
