"""A real Chromium without a window, steered over its DevTools socket: what it got over the page's own socket, keys, pictures."""

from __future__ import annotations

import asyncio
import base64
import itertools
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.needs import find

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)


class Page:
    """One tab. `received` is all that came over the page's socket; `requested` all addresses that it asked for."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.received = b""
        self.requested: list[str] = []
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._news = asyncio.Condition()
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for message in self._socket:
            said = message.json()
            if "id" in said:
                self._answers.pop(said["id"]).set_result(said)
                continue
            given = said.get("params", {})
            if said["method"] == "Network.webSocketFrameReceived":
                frame = given["response"]
                data = frame["payloadData"]
                self.received += base64.b64decode(data) if frame["opcode"] == 2 else data.encode()
            elif said["method"] == "Network.requestWillBeSent":
                self.requested.append(given["request"]["url"])
            async with self._news:
                self._news.notify_all()

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """One DevTools command; its result."""
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        answer = await asyncio.wait_for(asyncio.shield(self._answers[number]), 30)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    async def evaluate(self, script: str) -> Any:
        """The value of an expression in the page."""
        return (await self.ask("Runtime.evaluate", expression=script, returnByValue=True))["result"].get("value")

    async def until(self, words: bytes, limit_s: float = 60.0) -> None:
        """Wait until the socket has brought these words since `received` was last emptied."""
        async with asyncio.timeout(limit_s), self._news:
            await self._news.wait_for(lambda: words in self.received)

    async def until_true(self, script: str, limit_s: float = 20.0) -> None:
        """Wait until an expression in the page is true: the page itself looks, at every frame it draws."""
        waiting = f"new Promise(done => {{ const look = () => {script} ? done(true) : setTimeout(look, 20); look() }})"
        async with asyncio.timeout(limit_s):
            await self.ask("Runtime.evaluate", expression=waiting, awaitPromise=True)

    async def press(self, key: str) -> None:
        """Press and release one key that types a character."""
        await self.evaluate("document.querySelector('textarea').focus()")
        known = {"key": key, "code": f"Key{key.upper()}", "windowsVirtualKeyCode": ord(key.upper())}
        await self.ask("Input.dispatchKeyEvent", type="keyDown", text=key, **known)
        await self.ask("Input.dispatchKeyEvent", type="keyUp", **known)

    async def picture(self, path: Path) -> None:
        """What is seen, as PNG."""
        shot = await self.ask("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shot["data"]))

    async def close(self) -> None:
        await self._socket.close()
        await self._reader


@asynccontextmanager
async def chromium(folder: Path, size: tuple[int, int] = (1240, 800)) -> AsyncIterator[Page]:
    """A browser of its own with one blank tab; `folder` is its new profile."""
    program = find("chromium")
    assert program is not None, "call needs('chromium') first"
    process = subprocess.Popen(  # noqa: ASYNC220  it starts without being waited for
        [program, *FLAGS, f"--user-data-dir={folder}", f"--window-size={size[0]},{size[1]}", "about:blank"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        port = await _port(folder, process)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                tabs = await answer.json()
            address = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
            async with session.ws_connect(address, max_msg_size=0) as socket:
                page = Page(socket)
                for domain in ("Page", "Network", "Runtime"):
                    await page.ask(f"{domain}.enable")
                yield page
                await page.close()
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, 20)


async def _port(folder: Path, process: subprocess.Popen[bytes]) -> int:
    async with asyncio.timeout(60):
        while not (folder / "DevToolsActivePort").exists() or not (folder / "DevToolsActivePort").read_text():
            assert process.poll() is None, "chromium ended"
            await asyncio.sleep(0.05)
    return int((folder / "DevToolsActivePort").read_text().split("\n")[0])
