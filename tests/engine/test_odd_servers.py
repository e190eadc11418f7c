"""Servers that are no engine, or half of one: what they send ends one answer and never the run."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Thread

import pytest

from remote import engine, inflight
from remote.acceptance import Acceptance
from remote.engine import EngineClient
from remote.engine_errors import EngineError, Retryable

RID = "e3.odd.00000001.1."
TAKEN = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


@contextmanager
def answering(head: bytes, part: bytes = b"", silent: bool = False) -> Iterator[str]:
    """An address where every connection gets `head` and then `part`, over and over until it is closed; or nothing."""
    listener = socket.create_server(("127.0.0.1", 0))
    held: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            held.append(client)
            if not silent:
                Thread(target=send, args=(client,), daemon=True).start()

    def send(client: socket.socket) -> None:
        try:
            client.recv(1 << 16)
            client.sendall(head)
            while part:
                client.sendall(part)
        except OSError:
            return

    Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)  # closing alone does not wake the thread that accepts
        listener.close()
        for client in held:
            client.close()


def asked(url: str) -> EngineError:
    """The error that a request there comes to."""

    async def ask() -> EngineError:
        client = EngineClient(url, None, 1, Acceptance(2_048))
        try:
            with pytest.raises(EngineError) as caught:
                await client.generate([1, 2, 3], {}, 20, RID)
            return caught.value
        finally:
            await client.close()

    return asyncio.run(asyncio.wait_for(ask(), 30))


def test_an_encoding_that_is_none_spoils_one_answer() -> None:
    with answering(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\nnone") as url:
        error = asked(url)
    assert isinstance(error, Retryable) and error.kind == "not-json" and error.uses_try


def test_an_answer_without_an_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "LARGEST_BYTES", 1 << 20)
    with answering(b"HTTP/1.1 200 OK\r\n\r\n", part=b"x" * (1 << 16)) as url:
        error = asked(url)
    assert isinstance(error, Retryable) and error.kind == "too-large" and error.uses_try


@pytest.mark.parametrize(
    ("workers", "certain"),
    [
        (("taken", "taken"), True),
        (("taken", "gone"), True),
        (("taken", "silent"), False),
        (("silent", "taken"), False),
        (("gone", "gone"), False),
    ],
)
def test_an_abort_is_certain_when_no_worker_can_run_it_any_longer(
    workers: tuple[str, ...], certain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_ABORT_S", 0.3)
    monkeypatch.setattr(inflight, "_ABORT_S", 0.3)
    with ExitStack() as stack:
        urls = [stack.enter_context(answering(TAKEN, silent=kind == "silent")) for kind in workers if kind != "gone"]
        with answering(TAKEN) as gone:
            pass
        urls += [gone] * workers.count("gone")

        async def abort() -> bool:
            client = EngineClient("http://127.0.0.1:9", None, 1, Acceptance(2_048))
            client.workers = tuple(urls)
            try:
                return await client.abort(RID)
            finally:
                await client.close()

        assert asyncio.run(abort()) is certain
        if workers.count("gone") < len(workers):
            assert inflight._abort(urls, None, RID) is certain
