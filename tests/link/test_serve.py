"""`serve` in a real Chromium on a stand-in container: what is seen, typed and refused."""

from __future__ import annotations

import asyncio
import secrets
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest

from console.cli import run
from tests.support.browser import chromium
from tests.support.cli import start_console, wait_until
from tests.support.needs import needs
from tests.support.sshd import free_port
from tests.support.tree import SMALL_BUDGET, make_tree


@contextmanager
def serving(home: Path, root: Path, *more: str) -> Iterator[tuple[str, subprocess.Popen[str], list[str]]]:
    """`serve local` on a free port: its address, its process and what it says."""
    port = free_port()
    options = ["--root", str(root), "--token-budget", str(SMALL_BUDGET), "--engine-url", "http://127.0.0.1:9"]
    process = start_console("serve", "local", *options, "--port", str(port), *more, home=home)
    said: list[str] = []
    reader = threading.Thread(target=said.extend, args=(process.stderr,), daemon=True)
    reader.start()
    try:
        wait_until(lambda: any("exposed" in line for line in said), 60, "it says what it exposes")
        yield f"http://127.0.0.1:{port}", process, said
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        reader.join()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "prepared")


async def status_of(session: aiohttp.ClientSession, address: str, **headers: str) -> int:
    async with session.get(address, headers=headers, allow_redirects=False) as answer:
        return answer.status


async def test_the_console_in_a_browser(tmp_path: Path, root: Path) -> None:
    needs("chromium")
    with serving(tmp_path / "home", root) as (address, process, said):
        assert any("every account of this machine can kill" in line for line in said)
        async with chromium(tmp_path / "profile") as page:
            await page.ask("Page.navigate", url=address)
            await page.until(b"MixtureThoughts")
            assert all(one.startswith(address) for one in page.requested), "nobody else learns of it"
            page.received = b""
            await page.press("d")
            await page.until(b"nothing has been changed")
            await page.picture(tmp_path / "seen.png")
            assert (tmp_path / "seen.png").stat().st_size > 20_000
            await page.press("q")
            await page.until_true("document.body.className.includes('-closed')")
        wait_until(lambda: not _children(process.pid), 10, "the tab's console has ended")


async def test_a_page_from_elsewhere_gets_nothing(tmp_path: Path, root: Path) -> None:
    with serving(tmp_path / "home", root) as (address, process, _):
        port = address.rpartition(":")[2]
        async with aiohttp.ClientSession() as session:
            assert await status_of(session, address) == 200
            assert await status_of(session, address, Host=f"localhost:{port}") == 200
            assert await status_of(session, address, Host="rebound.example") == 403
            for origin in ("http://evil.example", "http://127.0.0.1:1", "null"):
                assert await status_of(session, f"{address}/ws", Origin=origin) == 403
            with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
                await session.ws_connect(f"{address}/ws", origin="http://evil.example")
        assert not _children(process.pid), "no console was started for it"


async def test_with_a_token_nothing_is_served_before_it_is_shown(tmp_path: Path, root: Path) -> None:
    token = secrets.token_hex(16)
    file = tmp_path / "token"
    file.write_text(token + "\n")
    file.chmod(0o600)
    with serving(tmp_path / "home", root, "--token-file", str(file), "--read-only") as (address, process, said):
        assert any("has the token can look at it" in line for line in said)
        assert not any(token in line for line in said)
        assert token.encode() not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            for path in ("/", "/ws", "/static/js/textual.js", "/download/x", f"/?token={token}"):
                assert await status_of(session, address + path) == 401, path
            with pytest.raises(aiohttp.WSServerHandshakeError, match="401"):
                await session.ws_connect(f"{address}/ws")
            async with session.post(f"{address}/token", data={"token": "wrong"}, allow_redirects=False) as answer:
                assert answer.status == 401 and "Set-Cookie" not in answer.headers
            assert await status_of(session, address) == 401
            async with session.post(f"{address}/token", data={"token": token}, allow_redirects=False) as answer:
                assert answer.status == 303
                cookie = answer.headers["Set-Cookie"]
                assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and token not in cookie
            assert await status_of(session, address) == 200
            async with session.ws_connect(f"{address}/ws?width=120&height=36") as socket:
                seen = b""
                async with asyncio.timeout(60):
                    while b"MixtureThoughts" not in seen:
                        seen += (await socket.receive_bytes()) if not socket.closed else b""
        async with aiohttp.ClientSession(cookies={"eagle3_console": "forged"}) as session:
            assert await status_of(session, address) == 401


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--host", "0.0.0.0"], "--token-file"),
        (["--host", "::"], "--token-file"),
        (["--host", "gpu.example"], "--token-file"),
        (["--token-file", "/nowhere"], "cannot be read"),
        (["--token-file", "open"], "others can read"),
        (["--token-file", "short"], "shorter than 16"),
    ],
)
def test_what_it_refuses(words: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, mode, text in (("open", 0o644, "a" * 32), ("short", 0o600, "abc")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    words = [str(tmp_path / word) if word in ("open", "short") else word for word in words]
    assert run(["serve", "local", *words]) == 2
    assert complaint in capsys.readouterr().err


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
