"""The console in a browser: textual-serve's pages and sockets behind our guard. Each tab runs a console of its own."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
from typing import Any

import aiohttp_jinja2
from aiohttp import web
from textual_serve.app_service import AppService
from textual_serve.server import Server, to_int

from console.web_guard import Guard
from remote.errors import OperatorError
from remote.exitcodes import ExitCode

MOST_SESSIONS = 8
"""Tabs at a time: each is a process with a connection of its own."""
SHUTDOWN_S = 3.0
_FROM_ELSEWHERE = re.compile(r"<link\b[^>]*https?://[^>]*>")


class _Service(AppService):
    """The process behind one tab; when it ends, however it ends, the tab is told."""

    async def run(self) -> None:
        await super().run()
        await self.remote_close()


class ConsoleServer(Server):
    """Serves `command`, a shell's line, to browsers that pass the guard."""

    def __init__(self, command: str, host: str, port: int, guard: Guard, title: str) -> None:
        super().__init__(command, host, port, title)
        self._guard = guard
        self._sockets: set[web.WebSocketResponse] = set()

    async def run(self, on_listening: Any) -> ExitCode:
        """Serve until SIGINT, SIGTERM or SIGHUP. Raises OperatorError when the port cannot be had."""
        logging.basicConfig(level=logging.WARNING, format="eagle3-console: %(message)s")
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, ended.set)
        runner = web.AppRunner(await self._make_app(), access_log=None, shutdown_timeout=SHUTDOWN_S)
        await runner.setup()
        try:
            try:
                await web.TCPSite(runner, self.host, self.port).start()
            except OSError as error:
                why = (
                    os.strerror(error.errno) if error.errno and error.errno > 0 else "it is no address of this machine"
                )
                raise OperatorError(
                    "cannot-listen", f"cannot listen on {self.host} port {self.port}: {why}", "choose another --port"
                ) from None
            on_listening()
            await ended.wait()
        finally:
            await runner.cleanup()
        return ExitCode.DONE

    async def _make_app(self) -> web.Application:
        app: web.Application = await super()._make_app()
        app.middlewares.append(self._guard.middleware())
        app.router.add_post("/token", self._guard.take_token)
        return app

    async def on_startup(self, app: web.Application) -> None:
        """What is exposed is said by the command, not here."""

    async def on_shutdown(self, app: web.Application) -> None:
        """End the tabs; each console closes its own link."""
        await asyncio.gather(*(socket.close() for socket in list(self._sockets)))

    async def handle_index(self, request: web.Request) -> web.Response:
        """The page, whose addresses are those that the browser came by: through a tunnel they are not ours."""
        secure = request.secure or request.headers.get("X-Forwarded-Proto") == "https"
        context = {
            "font_size": min(48, max(6, to_int(request.query.get("fontsize", "16"), 16))),
            "app_websocket_url": f"{'wss' if secure else 'ws'}://{request.host}/ws",
            "config": {"static": {"url": "/static/"}},
            "application": {"name": self.title},
        }
        page = aiohttp_jinja2.render_template("app_index.html", request, context)
        # The package's page takes a font from elsewhere: nobody else is to learn that this console is open.
        page.text = _FROM_ELSEWHERE.sub("", page.text or "")
        return page

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """One tab: a console as long as its socket lasts."""
        if len(self._sockets) >= MOST_SESSIONS:
            raise web.HTTPServiceUnavailable(text=f"{MOST_SESSIONS} tabs are open already\n")
        socket = web.WebSocketResponse(heartbeat=15)
        self._sockets.add(socket)

        async def close() -> None:
            await socket.close()

        service = _Service(
            self.command,
            write_bytes=socket.send_bytes,
            write_str=socket.send_str,
            close=close,
            download_manager=self.download_manager,
        )
        try:
            await socket.prepare(request)
            width, height = (
                to_int(request.query.get(name, ""), size) for name, size in (("width", 80), ("height", 24))
            )
            await service.start(width, height)
            await self._process_messages(socket, service)
        finally:
            self._sockets.discard(socket)
            await service.stop()
        return socket
