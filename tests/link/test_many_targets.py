"""Several targets in one console, over a real sshd: one dead, one slow; the first start with a pasted command."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import tomllib
from textual.pilot import Pilot
from textual.widgets import Input

from console.actions import Actions
from console.app import ConsoleApp
from console.book import TargetBook
from console.colors import Colors
from console.opening import opening_desk
from console.screens.first_run import FirstRunScreen
from console.screens.hostkey import HostKeyDialog
from console.screens.main import MainScreen
from console.screens.secret import AskSecret, ask_secret
from console.settings import load_settings
from console.view import LinkState
from tests.support.needs import needs
from tests.support.sshd import Server, keygen, sshd
from tests.support.tree import make_tree
from tests.ui.driving import press, screen_text, until

LIMIT_S = 60.0


@asynccontextmanager
async def slow_way(port: int, held: asyncio.Event) -> AsyncIterator[int]:
    """A port that leads to another one, and lets nothing through until `held` is set."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await held.wait()
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(carry(reader, there[1]), carry(there[0], writer))

    server = await asyncio.start_server(lead, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@asynccontextmanager
async def console_on(target: str | None) -> AsyncIterator[tuple[ConsoleApp, TargetBook]]:
    """The console as `open` makes it, without a terminal."""
    settings = load_settings(target, {}, None)
    book = TargetBook(settings, lambda kind, what: ask_secret(app, kind, what))
    desk = opening_desk(book.current, settings.options, 0.0)
    desk.operations, desk.targets = Actions(), book

    async def open_desk() -> object:
        if book.current:
            desk.controller = await book.open(book.current)
        return desk

    app = ConsoleApp(target or "", settings.options, open_desk, ascii_only=False, colors=Colors.FULL)  # type: ignore[arg-type]
    yield app, book


async def first_run(app: ConsoleApp, pilot: Pilot[int]) -> Input:
    """The box that takes the address, once it can be typed into: a screen is there before what is on it."""
    await until(pilot, lambda: app.focused is not None and app.focused.id == "address", LIMIT_S)
    assert isinstance(app.screen, FirstRunScreen)
    return app.screen.query_one("#address", Input)


def state(book: TargetBook, name: str) -> LinkState | None:
    controller = book.controller(name)
    return controller.view.link.state if controller is not None else None


async def test_switching_waits_neither_for_the_dead_nor_for_the_slow(
    server: Server, refusing: int, tmp_path: Path
) -> None:
    root = make_tree(tmp_path / "prepared")
    held = asyncio.Event()
    async with slow_way(server.port, held) as slow_port:
        known = tmp_path / "known_hosts"
        kind, blob = server.host_key.with_suffix(".pub").read_text().split()[:2]
        known.write_text("".join(f"[127.0.0.1]:{port} {kind} {blob}\n" for port in (server.port, slow_port)))
        config = tmp_path / "config" / "eagle3-console" / "config.toml"
        config.parent.mkdir(parents=True)
        words = f"ssh -F /dev/null {server.user}@127.0.0.1"
        config.write_text(
            "\n".join(
                f'[profiles.{name}]\nhost = "{words}"\nport = {port}\nidentity = "{server.identity}"\n'
                f'known_hosts = "{known}"\nroot = "{root}"\nengine_url = "http://127.0.0.1:9"\ncolor = "{color}"\n'
                f"read_only = {'true' if name == 'dead' else 'false'}"
                for name, port, color in (
                    ("alive", server.port, "green"),
                    ("dead", refusing, "red"),
                    ("slow", slow_port, "blue"),
                )
            )
        )
        async with console_on("dead") as (app, book), app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: state(book, "dead") is LinkState.RECONNECTING, LIMIT_S)
            # Between two tries it says that it connects; the refusal is what it comes back to.
            await until(pilot, lambda: "refused" in screen_text(app), LIMIT_S)
            assert "read-only" in screen_text(app).lower()
            await press(pilot, "c")
            await until(pilot, lambda: state(book, "alive") is LinkState.LIVE, LIMIT_S)
            await until(pilot, lambda: "live" in screen_text(app) and "refused" in screen_text(app), LIMIT_S)
            assert all(name in screen_text(app) for name in ("alive", "dead", "slow"))
            assert state(book, "slow") is LinkState.CONNECTING

            app.switch_target("slow")
            await until(pilot, lambda: book.current == "slow" and isinstance(app.screen, MainScreen), LIMIT_S)
            assert state(book, "slow") is LinkState.CONNECTING, "it is shown while it connects"
            app.switch_target("alive")
            await until(pilot, lambda: book.current == "alive" and "MixtureThoughts" in screen_text(app), LIMIT_S)
            assert state(book, "slow") is LinkState.CONNECTING, "nothing waited for it"

            held.set()
            await until(pilot, lambda: state(book, "slow") is LinkState.LIVE, LIMIT_S)
            app.switch_target("slow")
            await until(pilot, lambda: "MixtureThoughts" in screen_text(app) and book.current == "slow", LIMIT_S)


@pytest.fixture
def locked(folder: Path) -> Iterator[Server]:
    """A server that is opened by a key with a passphrase."""
    needs("sshd", "ssh")
    with sshd(folder, identity=keygen(folder / "locked", passphrase="open sesame")) as running:
        yield running


async def test_a_first_start_tries_the_pasted_command_and_then_saves_it(
    locked: Server, refusing: int, tmp_path: Path
) -> None:
    config = tmp_path / "config" / "eagle3-console" / "config.toml"
    command = f"ssh -F /dev/null {locked.user}@127.0.0.1 -p {{port}} -i {locked.identity}"
    async with console_on(None) as (app, book), app.run_test(size=(120, 36)) as pilot:
        box = await first_run(app, pilot)
        box.value = command.format(port=refusing)
        await pilot.press("enter")
        await until(pilot, lambda: "nothing is saved" in screen_text(app), LIMIT_S)
        assert "refused" in screen_text(app) and not config.exists() and book.rows() == ()

        box.value = command.format(port=locked.port)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, HostKeyDialog) and app.screen.armed, LIMIT_S)
        assert not config.exists()
        await pilot.press("y")
        await until(pilot, lambda: isinstance(app.screen, AskSecret) and app.screen.armed, LIMIT_S)
        await until(pilot, lambda: app.focused is not None and app.focused.id == "line", LIMIT_S)
        await pilot.press(*"open", "space", *"sesame")
        assert "sesame" not in screen_text(app)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, MainScreen) and "live" in screen_text(app), LIMIT_S)
        (row,) = book.rows()
        assert book.current == row.name
    saved = tomllib.loads(config.read_text())["profiles"]
    assert list(saved) == [row.name] and "sesame" not in config.read_text()
    assert load_settings(row.name, {}, None).target is not None


async def test_what_cannot_be_reached_is_saved_when_it_is_asked_for_again(refusing: int, tmp_path: Path) -> None:
    words = f"ssh -F /dev/null nobody@127.0.0.1 -p {refusing}"
    async with console_on(None) as (app, book), app.run_test(size=(120, 36)) as pilot:
        (await first_run(app, pilot)).value = words
        await pilot.press("enter")
        await until(pilot, lambda: "Enter once more saves it" in " ".join(screen_text(app).split()), LIMIT_S)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, MainScreen) and bool(book.current), LIMIT_S)
        assert len(book.rows()) == 1
