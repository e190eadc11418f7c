"""SIGKILL to the agent at each stage of a restart: while it launches, while it stops, while it kills a stranger.

What was begun on the container goes on by itself, nothing is done twice, and the next operator can act.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from remote.errors import OperatorError
from remote.identity import Identity, alive, identify
from remote.layout import Layout
from remote.members import find_members
from remote.status import generator_status
from tests.remote.test_agent_acts import BY, launch, options_for
from tests.support.agent import AgentProcess, agent
from tests.support.runs import until


def kill_agent(it: AgentProcess) -> None:
    it.process.kill()
    it.ended()


@pytest.mark.parametrize("seed", range(3))
def test_while_it_launches(tree: Path, seed: int) -> None:
    options, layout = options_for(tree), Layout(tree)
    with agent(options) as it:
        it.ask("launch", {"options": options.to_json(), "by": BY, "plan": {"datasets": []}})
        threading.Event().wait(random.Random(seed).uniform(0.0, 3.0))
        kill_agent(it)
    # Whatever had been begun ends in one whole generator or in none; the next operator meets one of the two.
    with agent(options) as again:
        try:
            launched = launch(again, options)
        except OperatorError as error:
            assert "lock" in error.code and BY in str(error)
            until(lambda: generator_status(layout).verdict == "running", 30)
            first = generator_status(layout).identity
            assert first is not None
            again.call("stop", {"mode": "force", "identity": first.to_json(), "by": BY}, 60)
            launched = launch(again, options)
        now = generator_status(layout)
        assert now.verdict == "running" and len(find_members(now.run_id or "", now.identity)) == 1
        again.call("stop", {"mode": "force", "identity": launched["identity"], "by": BY}, 60)


def test_while_it_stops_a_run(tree: Path) -> None:
    options, layout = options_for(tree, "slow=2"), Layout(tree)
    with agent(options) as it:
        launched = launch(it, options)
        it.ask("stop", {"mode": "drain", "drain_s": 30, "identity": launched["identity"], "by": BY})
        until(layout.stop_json.exists, 30)
        kill_agent(it)
    generator = Identity.from_json(launched["identity"])
    assert generator is not None
    until(lambda: not alive(generator), 30)
    until(lambda: generator_status(layout).verdict == "exited", 30)
    with agent(options) as again:
        assert alive(Identity.from_json(launch(again, options)["identity"]))


def test_while_it_kills_a_stranger(tree: Path) -> None:
    # It shrugs at INT, so that the ladder has a second rung to climb after the agent is gone.
    script = tree.parent / "run_inference.py"
    target = tree / "B4_mixturethoughts" / "raw_responses.jsonl"
    script.write_text(
        f"import signal, time\nf = open({str(target)!r}, 'a')\n"
        "signal.signal(signal.SIGINT, lambda *_: print('INT', flush=True))\n"
        "print('open', flush=True)\nwhile True: time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE) as stranger:
        assert stranger.stdout is not None
        stranger.stdout.readline()
        identity = identify(stranger.pid)
        assert identity is not None
        with agent(options_for(tree)) as it:
            it.ask("kill_stray", {"identity": identity.to_json(), "by": BY})
            assert stranger.stdout.readline() == b"INT\n"
            kill_agent(it)
        assert stranger.wait(60) < 0
