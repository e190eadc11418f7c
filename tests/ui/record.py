"""`make record`: what pictures are made of, recorded from the demo's container by the real link.

The incident as it is found, the run that a restart from the console starts, and its end. For each
of them the agent's snapshot, and its answers to what the screens ask. Takes about ten minutes;
the container is this recording's own and is gone afterwards.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import console
from console.actions import Actions
from console.connecting import Connector
from console.controller import Controller
from console.demo import container
from console.demo.state import DemoInfo
from console.model import Snapshot
from console.pipe import AgentPipe
from console.who import operator
from remote.errors import OperatorError
from remote.mergepatch import apply
from remote.options import TABLE, Budget, Options
from remote.release import release
from tests.ui.scrub import HOST, OPERATOR, RELEASE, Scrub

FOLDER = Path(__file__).parent / "snapshots" / "demo"
SPEED = 0.6
LOOKS = 2
"""How many snapshots are kept of each state, a minute apart: what a console has seen since it was opened."""

LOOK_EVERY_S = 61.0
END_LIMIT_S = 900.0
TRIED_BUDGET = 50_000
OPENED = "B2_opencodeinstruct"
LOG_BYTES = 65_536


class Tap:
    """A pipe that keeps the snapshot which passes through it, as JSON."""

    def __init__(self, pipe: AgentPipe, heard: Callable[[dict[str, Any]], None]) -> None:
        self._pipe = pipe
        self._heard = heard
        self._raw: dict[str, Any] = {}

    async def read_line(self) -> bytes:
        """The agent's next line."""
        line = await self._pipe.read_line()
        message = json.loads(line) if line.strip() else {}
        match message:
            case {"method": "snapshot", "params": [seq, at, whole]}:
                self._raw = {**whole, "seq": seq, "at": at}
            case {"method": "patch", "params": [seq, at, changes]}:
                self._raw = {**apply(self._raw, changes), "seq": seq, "at": at}
            case {"method": "tick", "params": [at]}:
                self._raw = {**self._raw, "at": at}
        self._heard(self._raw)
        return line

    async def write(self, data: bytes) -> None:
        """To the agent."""
        await self._pipe.write(data)

    async def close(self) -> None:
        """The pipe's own end."""
        await self._pipe.close()


class Recorder:
    """One container, looked at through a real controller, and its snapshot as it came."""

    def __init__(self, info: DemoInfo) -> None:
        own = info.options()
        given = {option.name: option.read(own[option.name], option.flag) for option in TABLE if option.name in own}
        self.info = info
        self.options = Options(**given)
        self.raw: dict[str, Any] = {}
        self._connector = Connector(info.address, self.options.python)
        self.controller = Controller(info.target, self.options, self._connect, release=release())

    async def _connect(self) -> Tap:
        return Tap(await self._connector(), self._hear)

    def _hear(self, raw: dict[str, Any]) -> None:
        self.raw = raw

    async def until(self, holds: Callable[[Snapshot], bool], limit_s: float) -> None:
        """Wait for a state. Raises TimeoutError."""
        news = asyncio.Event()
        unsubscribe = self.controller.subscribe(lambda view: news.set())
        try:
            async with asyncio.timeout(limit_s):
                while (snapshot := self.controller.view.snapshot) is None or not holds(snapshot):
                    news.clear()
                    await news.wait()
        finally:
            unsubscribe()

    async def answers(self) -> dict[str, Any]:
        """What the agent says to all that a screen may ask in this state; an error is kept as one."""
        snapshot = self.controller.view.snapshot
        assert snapshot is not None
        stopping = {"stopping": [writer.pid for writer in snapshot.writers], "stops_generator": True, "at": time.time()}
        asked = {"options": self.options.to_json()}
        less = {"options": replace(self.options, token_budget=Budget(TRIED_BUDGET)).to_json()}
        return {
            "plan": {
                str(self.info.token_budget): await self._ask("plan", asked),
                str(TRIED_BUDGET): await self._ask("plan", less),
                f"{self.info.token_budget} restart": await self._ask("plan", {**asked, **stopping}),
            },
            "preflight": await self._ask("preflight", {**asked, **stopping}),
            "dataset": {OPENED: await self._ask("dataset", {"folder": OPENED})},
            "row": {OPENED: await self._ask("row", {"folder": OPENED, "row": 1, **asked})},
            "log": await self._ask("log", {"bytes": LOG_BYTES}),
            "history": await self._ask("history", {"since": snapshot.at - 86_400}),
            "audit": await self._ask("audit", {"limit": 50}),
        }

    async def _ask(self, method: str, params: Mapping[str, Any]) -> Any:
        try:
            return await self.controller.call(method, params, 120.0)
        except OperatorError as error:
            return {"error": error.to_json()}

    async def state(self, looks: int = LOOKS) -> dict[str, Any]:
        """The state now, after `looks` minutes of looking at it; answers first, so that none is newer than what is shown."""
        earlier = []
        for _ in range(looks):
            earlier.append(self.raw)
            await asyncio.sleep(LOOK_EVERY_S)
        answers = await self.answers()
        return {"options": self.options.to_json(), "earlier": earlier, "snapshot": self.raw, "answers": answers}


async def record(info: DemoInfo) -> dict[str, dict[str, Any]]:
    """The three states, as they came. Raises OperatorError or TimeoutError when the container does not get there."""
    recorder, states = Recorder(info), {}
    await recorder.controller.start()
    try:
        await recorder.controller.ready(60.0)
        await recorder.controller.complete(60.0)
        _say("looking at the incident")
        states["incident"] = await recorder.state()
        _say("restarting")
        proposal = await Actions().restart(recorder.controller, recorder.options)
        outcome = await proposal.execute("", lambda stages: None)
        if not outcome.ok:
            raise OperatorError(
                "not-restarted", " · ".join([outcome.headline, *(said.text for said in outcome.remarks)])
            )
        _say("letting it run")
        states["running"] = await recorder.state()
        _say("waiting for the end")
        await recorder.until(lambda snapshot: snapshot.generator.verdict == "exited", END_LIMIT_S)
        states["finished"] = await recorder.state(looks=1)
    finally:
        await recorder.controller.close()
    return states


def neutral(states: Mapping[str, dict[str, Any]], info: DemoInfo) -> dict[str, dict[str, Any]]:
    """The states without a trace of the machine that they were recorded on."""
    inside = Path(info.root).parents[3]
    who = operator()
    words = {
        str(inside): "",
        str(inside / "root"): "/root",
        str(inside / "work"): "/root/jobs",
        info.target: "root@10.0.0.7:22",
        info.engine_url: "http://127.0.0.1:30000",
        info.python: "/opt/venv/bin/python",
        str(Path(sys.executable).resolve()): "/opt/venv/bin/python",
        str(Path(console.__file__).parent.parent): "/root/eagle3-console",
        str(inside.parent): "/root/demo",
        states["incident"]["snapshot"]["agent"]["release"]: RELEASE,
        f"{who['user']}@{who['host']}": "{user}@{host}".format(**OPERATOR),
        socket.gethostname(): HOST,
    }
    scrub = Scrub(words, float(states["incident"]["snapshot"]["at"]), {info.pids["older_script"]: 911})
    for state in states.values():
        generator = state["snapshot"].get("generator") or {}
        scrub.learn(pid for pid in (generator.get("supervisor_pid"), generator.get("pid")) if pid)
    return {name: scrub.value(state) for name, state in states.items()}


def _lines(value: Any, depth: int = 3) -> str:
    """JSON with a line for each value down to `depth`: differences can be read, token ids do not fill pages."""
    if depth and isinstance(value, dict) and value:
        inner = (f"{json.dumps(key)}: {_lines(value[key], depth - 1)}" for key in sorted(value))
        return "{\n" + ",\n".join(inner) + "\n}"
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _say(text: str) -> None:
    print(f"record: {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Record all states and write them."""
    with tempfile.TemporaryDirectory(prefix="e3-record-") as folder:
        state_dir = Path(folder) / "demo"
        _say("starting a container")
        info = container.start(state_dir, speed=SPEED)
        try:
            states = asyncio.run(record(info))
        finally:
            container.stop(state_dir)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, state in neutral(states, info).items():
        (FOLDER / f"{name}.json").write_text(_lines(state) + "\n", encoding="utf-8")
    _say(f"{', '.join(states)} written; make screenshots draws them")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
