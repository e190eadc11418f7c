"""What a restart says: before `y` what it comes to, after a failure what was done, what was not, and what is not known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from console import restart_outcome
from console.ports import Outcome
from console.restart_outcome import failure, looked_again
from console.trace_gist import gist_lines
from console.view import Link, LinkState, View
from remote.errors import OperatorError
from remote.options import Options, parse_budget
from remote.plan import plan_root
from tests.support.states import incident_states
from tests.support.views import generator, view

LOST = OperatorError("link-lost", "the link to the container dropped before the answer came", "look at the state")


def gist(**options: Any) -> tuple[str, ...]:
    chosen = replace(Options(), **options)
    return gist_lines(plan_root(incident_states(), chosen).to_json())


def test_the_incident_in_three_lines() -> None:
    generate, *rest = gist()
    assert generate.startswith("generate  B3 resumes, B4 B5 B6 B7 B8 from scratch: about ")
    assert "answers" in generate and "GPU-h" in generate
    assert rest[-1] == "skip      B1 B2 budget met"


def test_a_budget_one_key_wrong_is_plain_to_see() -> None:
    (right, *_), (wrong, *_, skip) = gist(), gist(token_budget=parse_budget("10"))
    assert "M new tokens" in right and "M new tokens" not in wrong
    assert skip == "skip      B1 B2 B3 budget met"


def test_nothing_to_generate_and_half_a_plan() -> None:
    assert gist(token_budget=parse_budget("1"), datasets=("B1",))[0] == "generate  nothing"
    assert gist_lines({}) == ("generate  nothing",)
    assert gist_lines({"datasets": [{"id": "B\x1b[2J", "inference": {"decision": "start"}}, {"inference": 3}]})
    assert "\x1b" not in "".join(gist_lines({"datasets": [{"id": "B\x1b[2J", "inference": {"decision": "start"}}]}))


def words(outcome: Outcome) -> str:
    return "\n".join([outcome.headline, *(remark.text for remark in outcome.remarks)])


def test_nothing_is_called_untouched_that_was_killed() -> None:
    refused = words(failure("stop", OperatorError("stale-identity", "pid 911 is another process now"), [], None))
    assert "nothing was killed and nothing was started" in refused
    respawned = OperatorError("respawned", "pid 911 was killed and something started it again as pid 913")
    for error in (respawned, LOST, OperatorError("timeout", "the container did not answer 'stop' within 60 s")):
        said = words(failure("stop", error, [], None))
        assert "nothing was killed" not in said and "KILLED BUT NOT STARTED" not in said


def test_killed_but_not_started_is_shouted_only_where_that_is_known() -> None:
    done = ["killed pid 911"]
    sure = failure("launch", OperatorError("lock-held", "somebody holds the lock"), done, None)
    assert sure.headline.startswith("KILLED BUT NOT STARTED") and sure.press == "r"
    lost = failure("launch", LOST, done, None)
    assert "not known whether it was started" in lost.headline and "killed pid 911" in words(lost)


class Reconnecting:
    """A controller whose link is away, and comes back with one look at what runs."""

    def __init__(self, before: View, after: View | None) -> None:
        self.view = before
        self._after = after

    def subscribe(self, callback: Callable[[View], None]) -> Callable[[], None]:
        def arrive() -> None:
            if self._after is not None:
                self.view = self._after
                callback(self.view)

        asyncio.get_running_loop().call_soon(arrive)
        return lambda: None


OLD = generator(run_id="old", pid=11, verdict="running")
AWAY = view(link=Link(LinkState.RECONNECTING, "gpu-07"), at=100.0, generator=OLD)


def look(stage: str, error: OperatorError, after: View | None, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    monkeypatch.setattr(restart_outcome, "BACK_LIMIT_S", 0.05)
    told = failure(stage, error, ["stopped pid 11"], None)
    controller: Any = Reconnecting(AWAY, after)
    return asyncio.run(looked_again(controller, told, stage, error, OLD))


def test_what_became_of_a_lost_answer_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    new = generator(run_id="new", pid=22, verdict="running")
    came = view(link=Link(LinkState.LIVE, "gpu-07"), at=105.0, generator=new)
    started = look("launch", LOST, came, monkeypatch)
    assert started.headline == "started, but not verified: run new, pid 22" and started.press == "l"
    gone = generator(run_id="old", pid=11, verdict="exited")
    came = view(link=Link(LinkState.LIVE, "gpu-07"), at=105.0, generator=gone)
    assert "no generator of ours runs" in words(look("launch", LOST, came, monkeypatch))
    came = view(link=Link(LinkState.LIVE, "gpu-07"), at=105.0, generator=OLD)
    assert "pid 11, still runs" in words(look("stop", LOST, came, monkeypatch))


def test_an_old_look_is_not_taken_for_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    stale = view(link=Link(LinkState.LIVE, "gpu-07"), at=100.0, generator=OLD)
    for after in (None, stale):
        assert "the link is not back yet" in words(look("launch", LOST, after, monkeypatch))
    known = OperatorError("lock-held", "somebody holds the lock")
    assert look("launch", known, None, monkeypatch) == failure("launch", known, ["stopped pid 11"], None)
