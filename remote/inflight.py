"""Request ids, noted before they are sent: what a killed generator left running on the engine can be ended by name.

The engine decodes on when its client is gone, and it matches aborted ids by prefix. So every attempt has an id of its own
that is no prefix of another, `e3.RUN.NNNNNNNN.ATTEMPT.`, and stands in `.eagle3/inflight.log` from before it is sent until
it ended.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from remote.appended import read_forwards
from remote.layout import Layout
from remote.shorthttp import Http, HttpError

_ABORT_S = 3.0


def make_rid(run: str, number: int, attempt: int) -> str:
    """The id of one attempt. Fixed width and a closing dot: no id is a prefix of another."""
    return f"e3.{run}.{number:08d}.{attempt}."


class InflightLog:
    """The log while its run writes it: begun anew, one write a line. Not synced: it outlives a killed process as it is,
    and an engine does not outlive the machine. Ids that could not be aborted at the same address stay noted."""

    def __init__(self, layout: Layout, run: str, engine_url: str) -> None:
        """Begin the log of a run. Raises OSError."""
        left = read_inflight(layout)
        beside = layout.inflight_log.with_name(f".inflight.{os.getpid()}.tmp")
        self._fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._write({"run": run, "engine_url": engine_url, "at": time.time(), "pid": os.getpid()})
        for rid in left.open_rids if left.engine_url == engine_url else ():
            self._write({"rid": rid, "left": left.run})
        beside.replace(layout.inflight_log)

    def begin(self, rid: str, folder: str, key: str) -> None:
        """Note an attempt before it is sent. Raises OSError."""
        self._write({"rid": rid, "dataset": folder, "sample_id": key, "at": round(time.time(), 3)})

    def end(self, rid: str) -> None:
        """Note that it ended, or was aborted. Raises OSError."""
        self._write({"rid": rid, "ended": True})

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write(self, value: dict[str, object]) -> None:
        os.write(self._fd, json.dumps(value, separators=(",", ":")).encode() + b"\n")


@dataclass(frozen=True)
class Noted:
    """What a log says: the run, the engine's address, and the ids without an end."""

    run: str | None
    engine_url: str | None
    open_rids: tuple[str, ...]


@dataclass(frozen=True)
class Leftovers:
    """What became of them: `found` ids had no end, `aborted` were taken by the engine, `detail` says what was not."""

    found: int
    aborted: int
    detail: str = ""


def read_inflight(layout: Layout) -> Noted:
    """The ids that a log has without their end. Raises OSError, not for a missing file."""
    run = url = None
    open_rids: dict[str, None] = {}
    for line in read_forwards(layout.inflight_log):
        rid = line.get("rid")
        if isinstance(rid, str):
            if line.get("ended"):
                open_rids.pop(rid, None)
            else:
                open_rids[rid] = None
        elif isinstance(line.get("engine_url"), str):
            run, url = line.get("run"), line["engine_url"]
    return Noted(run, url, tuple(open_rids))


def abort_leftovers(layout: Layout, api_key: str | None = None, limit_s: float = 20.0) -> Leftovers:
    """Abort every id that a dead run left, each by its full name, and note their end. Never raises for the engine.

    Behind a router, which has no abort, each worker is asked. Raises OSError when the log cannot be read.
    """
    noted = read_inflight(layout)
    if not noted.open_rids or noted.engine_url is None:
        return Leftovers(0, 0)
    deadline = time.monotonic() + limit_s
    done, detail = _abort_all(noted.engine_url, api_key, noted.open_rids, deadline)
    if done:
        fd = os.open(layout.inflight_log, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            for rid in done:
                os.write(fd, json.dumps({"rid": rid, "ended": True}).encode() + b"\n")
        finally:
            os.close(fd)
    return Leftovers(len(noted.open_rids), len(done), detail)


def _abort_all(url: str, api_key: str | None, rids: Sequence[str], deadline: float) -> tuple[list[str], str]:
    bases = [url]
    done: list[str] = []
    for rid in rids:
        if time.monotonic() > deadline:
            return done, "the time for it ran out"
        try:
            taken = _abort(bases, api_key, rid)
            if not taken and bases == [url]:
                bases = worker_urls(url, api_key)
                if not bases:
                    return done, "the address answers, but knows no /abort_request and names no workers"
                taken = _abort(bases, api_key, rid)
        except HttpError as error:
            return done, str(error)
        if taken:
            done.append(rid)
    return done, ""


def _abort(bases: Sequence[str], api_key: str | None, rid: str) -> bool:
    """Whether it is certain that none of these addresses runs it any longer: they took the abort, or nobody listens there.
    One that is silent may be the one that does. Raises HttpError when none answers."""
    errors: list[HttpError] = []
    statuses: list[int] = []
    for base in bases:
        try:
            statuses.append(Http(base, api_key, _ABORT_S).post("/abort_request", {"rid": rid}).status)
        except HttpError as error:
            errors.append(error)
    if errors and not statuses:
        raise errors[-1]
    return 200 in statuses and all(error.refused for error in errors)


def worker_urls(url: str, api_key: str | None, limit_s: float = _ABORT_S) -> list[str]:
    """The engines behind a router, by its `/workers`; empty where that is unknown. Raises HttpError."""
    value = Http(url, api_key, limit_s).get("/workers").json()
    workers = value.get("workers") if isinstance(value, dict) else None
    urls = [worker.get("url") for worker in workers or () if isinstance(worker, dict)]
    return [found for found in urls if isinstance(found, str) and found.startswith("http")]
