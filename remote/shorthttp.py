"""One short HTTP request with the standard library alone, for the agent, the supervisor and preflight.

Every request has its own connection and a deadline for the whole of it: a server that drips bytes cannot hold it.
"""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from remote.text import clean

_LARGEST_BYTES = 8 << 20


class HttpError(Exception):
    """No answer: `refused` when nobody listens there, `timed_out` when the deadline passed. One clear sentence."""

    def __init__(self, message: str, refused: bool = False, timed_out: bool = False) -> None:
        super().__init__(message)
        self.refused = refused
        self.timed_out = timed_out


@dataclass(frozen=True)
class HttpAnswer:
    """A status and the whole body."""

    status: int
    body: bytes

    def json(self) -> Any:
        """The body of a 200 as JSON; None for any other status or for what is no JSON."""
        if self.status != 200:
            return None
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


class Http:
    """Requests to one address; `limit_s` is for each of them, from connecting to the last byte."""

    def __init__(self, url: str, api_key: str | None, limit_s: float) -> None:
        parts = urlsplit(url if "//" in url else f"//{url}", scheme="http")
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise HttpError(f"{clean(url)} is no http address")
        self._tls = parts.scheme == "https"
        self._host = parts.hostname
        self._port = port or (443 if self._tls else 80)
        self._prefix = parts.path.rstrip("/")
        self._limit_s = limit_s
        self._headers: dict[str, str] = {"connection": "close", "accept": "*/*"}
        if api_key:
            self._headers["authorization"] = f"Bearer {api_key}"

    def get(self, path: str) -> HttpAnswer:
        """GET. Raises HttpError."""
        return self._request("GET", path, None)

    def post(self, path: str, value: Mapping[str, Any]) -> HttpAnswer:
        """POST of a JSON object. Raises HttpError."""
        return self._request("POST", path, json.dumps(value).encode())

    def _request(self, method: str, path: str, body: bytes | None) -> HttpAnswer:
        deadline = time.monotonic() + self._limit_s
        kind = http.client.HTTPSConnection if self._tls else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=self._limit_s)
        where = f"{self._host}:{self._port}{path}"
        try:
            headers = self._headers | ({"content-type": "application/json"} if body is not None else {})
            connection.request(method, self._prefix + path, body, headers)
            sock = connection.sock  # the connection lets go of it when the answer will close
            _let(sock, deadline)
            response = connection.getresponse()
            data = bytearray()
            while len(data) <= _LARGEST_BYTES:
                _let(sock, deadline)
                piece = response.read1(1 << 16)
                if not piece:
                    return HttpAnswer(response.status, bytes(data))
                data += piece
            raise HttpError(f"{where} answers with more than {_LARGEST_BYTES >> 20} MiB")
        except ConnectionRefusedError:
            raise HttpError(f"nobody listens at {self._host}:{self._port}", refused=True) from None
        except TimeoutError:
            raise HttpError(f"{where} did not answer within {self._limit_s:g} s", timed_out=True) from None
        except socket.gaierror as error:
            raise HttpError(f"{self._host} is not known here ({error.strerror})", refused=True) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise HttpError(f"{where}: {clean(error) or type(error).__name__}") from None
        finally:
            connection.close()


def _let(sock: socket.socket, deadline: float) -> None:
    """Give a socket the time that is left. Raises TimeoutError when none is."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    sock.settimeout(left)
