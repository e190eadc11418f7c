"""The console goes away while the agent changes something: it is carried through, and the audit says who asked for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from remote import audit
from remote.identity import alive, identify
from remote.layout import RESPONSES, Layout
from remote.members import find_members
from remote.status import generator_status
from tests.remote.test_agent_acts import BY, options_for
from tests.support.agent import AgentProcess, agent

LIMIT_S = 60.0


def go_away(it: AgentProcess) -> None:
    """What the agent sees of a killed console or a dead sshd session: its input ends and its output leads nowhere."""
    assert it.process.stdin is not None
    it.process.stdin.close()
    assert it.ended(LIMIT_S) == 0


def entry(layout: Layout, action: str) -> dict[str, Any]:
    (found,) = (one for one in audit.read(layout, 10) if one["action"] == action)
    return found


def test_a_launch_is_carried_through(tree: Path) -> None:
    options, layout = options_for(tree), Layout(tree)
    with agent(options) as it:
        # Asked for and gone: nothing has been begun yet when the input ends.
        it.ask("launch", {"options": options.to_json(), "by": BY, "plan": {"datasets": [], "mark": "the plan"}})
        go_away(it)
    now = generator_status(layout)
    assert now.verdict == "running" and len(find_members(now.run_id or "", now.identity)) == 1
    told = entry(layout, "launch")
    assert told["outcome"] == "running" and told["who"] == {"user": "ann", "host": "laptop"}
    assert told["plan"]["mark"] == "the plan", "report compares it with what was done"


def test_a_stranger_is_killed_to_the_end(tree: Path) -> None:
    target = tree / "B4_mixturethoughts" / RESPONSES
    deaf = "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); f = open(sys.argv[1], 'a')\n"
    code = f"{deaf}print('open', flush=True)\nwhile True: signal.pause()\n"
    stranger = subprocess.Popen([sys.executable, "-c", code, str(target)], stdout=subprocess.PIPE)
    try:
        assert stranger.stdout is not None
        stranger.stdout.readline()
        identity = identify(stranger.pid)
        assert identity is not None
        options, layout = options_for(tree), Layout(tree)
        with agent(options) as it:
            it.ask("kill_stray", {"identity": identity.to_json(), "by": BY, "patience_s": 0.3})
            go_away(it)
        assert not alive(identity)
        told = entry(layout, "kill")
        assert told["outcome"] == "stopped" and told["target"]["pid"] == stranger.pid
        assert told["who"] == {"user": "ann", "host": "laptop"}
    finally:
        stranger.kill()
        stranger.communicate()


def test_an_agent_with_nothing_at_work_ends_at_once(tree: Path) -> None:
    options = options_for(tree)
    with agent(options) as it:
        it.ask("preflight", {"options": options.to_json()})
        go_away(it)
        assert not os.path.exists(tree / ".eagle3"), "and has left nothing behind"
