"""Who may use the console in a browser: checked before every request, the page and the socket alike.

Without a token only this machine's own browser is served: the Host header must be a loopback name,
so that a page from elsewhere cannot reach it through a name that it has pointed here, and an Origin
must be our own, because a browser lets any page open a socket to any address. With a token, each
browser has to show it once and then carries a cookie that is worth nothing after the server's end.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Middleware

from remote.errors import OperatorError
from remote.exitcodes import ExitCode

COOKIE = "eagle3_console"
SHORTEST_TOKEN = 16
WRONG_TOKEN_PAUSE_S = 1.0
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_ASK = """<!DOCTYPE html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>eagle3-console</title><body style="font: 16px monospace; background: #0c181f; color: #ddd; padding: 2em">
<form method="post" action="/token"><label>The token of this console:
<input name="token" type="password" autocomplete="current-password" autofocus></label> <button>open</button></form>
<p>{why}</p></body></html>"""


def is_loopback(host: str) -> bool:
    """Whether an address to listen on, or the name in a Host header, is this machine alone."""
    if host.strip("[]").lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def read_token(path: Path) -> str:
    """The token in a file that only its owner can read. Raises OperatorError."""
    try:
        mode, token = path.stat().st_mode, path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise _usage(f"the token file {path} cannot be read: {why}", "make one: openssl rand -hex 32 > FILE") from None
    if mode & 0o077:
        raise _usage(f"others can read the token file {path}", f"chmod 600 {path}")
    if len(token) < SHORTEST_TOKEN or any(char.isspace() for char in token):
        raise _usage(
            f"the token in {path} is shorter than {SHORTEST_TOKEN} characters, or is not one word",
            "make one: openssl rand -hex 32 > FILE",
        )
    return token


def _usage(message: str, remedy: str) -> OperatorError:
    return OperatorError("usage", message, remedy, ExitCode.USAGE)


class Guard:
    """The checks, as a middleware and a form. `token` None: this machine's own browser alone."""

    def __init__(self, token: str | None) -> None:
        self._token = token
        self._cookie = secrets.token_urlsafe(32)

    def middleware(self) -> Middleware:
        """What stands before every handler."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            refused = self._refused(request)
            response = refused if refused is not None else await handler(request)
            if not response.prepared:
                response.headers.update(_headers(request.host))
            return response

        return guard

    def _refused(self, request: web.Request) -> web.Response | None:
        name = urlsplit(f"//{request.host}").hostname or ""
        if self._token is None and not is_loopback(name):
            return web.Response(status=403, text="this console answers to names of this machine only\n")
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != request.host:
            return web.Response(status=403, text="a page from elsewhere cannot use this console\n")
        if self._token is None or request.path == "/token":
            return None
        if hmac.compare_digest(request.cookies.get(COOKIE, "").encode(), self._cookie.encode()):
            return None
        if request.path == "/":
            return web.Response(status=401, text=_ASK.format(why=""), content_type="text/html")
        return web.Response(status=401, text="the token of this console has not been shown\n")

    async def take_token(self, request: web.Request) -> web.Response:
        """The form's answer: the cookie and the way to the console, or the form again after a pause."""
        given = (await request.post()).get("token")
        right = isinstance(given, str) and hmac.compare_digest(given.strip().encode(), (self._token or "").encode())
        if self._token is None or not right:
            await asyncio.sleep(WRONG_TOKEN_PAUSE_S)
            return web.Response(status=401, text=_ASK.format(why="That is not it."), content_type="text/html")
        response = web.Response(status=303, headers={"Location": "/"})
        secure = request.secure or request.headers.get("X-Forwarded-Proto") == "https"
        response.set_cookie(COOKIE, self._cookie, httponly=True, samesite="Strict", secure=secure)
        return response


def _headers(host: str) -> dict[str, str]:
    """Nothing is loaded from elsewhere, nothing is framed elsewhere, nothing is kept."""
    policy = (
        "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
        f"img-src 'self' data:; font-src 'self' data:; connect-src 'self' ws://{host} wss://{host}; "
        "frame-ancestors 'none'; form-action 'self'"
    )
    return {
        "Content-Security-Policy": policy,
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
