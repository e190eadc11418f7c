"""A small HTTP server that keeps what is posted to it and answers as it is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STALL = 0
"""In place of a status: take the request and never answer it."""


@dataclass
class Post:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Sink:
    """What arrived, in order; `answers` are the statuses to give, 200 when there are none left."""

    url: str = ""
    answers: list[int] = field(default_factory=list)
    posts: list[Post] = field(default_factory=list)
    arrived: threading.Condition = field(default_factory=threading.Condition)

    def wait(self, count: int, limit_s: float = 30.0) -> list[Post]:
        """The posts, once there are `count`."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.posts) >= count, limit_s), [p.body for p in self.posts]
            return list(self.posts)


@contextmanager
def sink(*answers: int) -> Iterator[Sink]:
    """Serve on loopback until the end of the block."""
    kept = Sink(answers=list(answers))
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with kept.arrived:
                status = kept.answers.pop(0) if kept.answers else 200
                kept.posts.append(Post(self.path, dict(self.headers), body))
                kept.arrived.notify_all()
            if status == STALL:
                ended.wait()
                return
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST

        def log_message(self, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield kept
    finally:
        ended.set()
        server.shutdown()
        thread.join()
        server.server_close()
