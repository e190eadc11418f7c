"""`logs -f` over a link that comes and goes, or that only a person can mend."""

from __future__ import annotations

import asyncio

import pytest

from console import controller as controller_module
from console.commands.logs import follow_log
from console.controller import Controller
from console.view import LinkState
from console.watching import wait_for
from remote.errors import OperatorError
from remote.options import Options
from tests.unit.test_controller import Dialler, Scripted


async def test_it_ends_with_what_only_a_person_can_mend(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(controller_module, "backoff_s", lambda attempt, chance, network: 0.0)
    pipe = Scripted(log={"end": 7, "lines": ["a line"]})
    changed = OperatorError("host-key-changed", "the key of gpu-07 CHANGED", "run ssh-keygen -R gpu-07")
    controller = Controller("gpu-07", Options(), Dialler(pipe, OperatorError("refused", "nobody listens"), changed))
    await controller.start()
    await wait_for(controller, lambda view: view.link.state is LinkState.LIVE, 5.0)
    following = asyncio.create_task(follow_log(controller, 0))
    await wait_for(controller, lambda view: "log" in pipe.calls, 5.0)
    pipe.end(OperatorError("link-lost", "reset by peer"))
    with pytest.raises(OperatorError) as told:
        async with asyncio.timeout(10):
            await following
    assert told.value.code == "host-key-changed" and told.value.remedy == "run ssh-keygen -R gpu-07"
    said = capsys.readouterr()
    assert said.out == "a line\n" and said.err.count("goes on when it is back") == 1 and "reset by peer" in said.err
    await controller.close()
