"""The controller over a scripted pipe: what it shows of a link that comes, goes silent, breaks and comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from console import clock, conversation
from console import controller as controller_module
from console.controller import Controller
from console.link_state import LONGEST_PAUSE_S, after_failure, backoff_s
from console.one_shot import open_controller
from console.status_json import status_json
from console.view import LinkState, View
from console.watching import wait_for
from remote import protocol
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.options import Options

WHOLE: dict[str, Any] = {
    "root": "/data",
    "datasets": {"B1_glaive": {"id": "B1", "title": "Glaive", "order": 0, "state": "partial", "tokens": 10}},
    "generator": {"verdict": "running", "pid": 7},
}


class Scripted:
    """The agent's end of a pipe, played by the test."""

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = {
            "hello": {"at": 1000.0},
            "ping": {"at": 1000.0},
            "bye": {},
            "resync": {},
            **answers,
        }
        self.calls: list[str] = []
        self.last_id: int | str | None = None
        self.closed = False
        self.whole_on_hello = True
        self._out: asyncio.Queue[bytes | OperatorError] = asyncio.Queue()

    async def read_line(self) -> bytes:
        line = await self._out.get()
        if isinstance(line, OperatorError):
            raise line
        return line

    async def write(self, data: bytes) -> None:
        request = protocol.parse_request(data)
        self.calls.append(request.method)
        self.last_id = request.id
        answer = self.answers.get(request.method)
        if isinstance(answer, OperatorError):
            self.say(protocol.failure(request.id, answer))
        elif answer is not None:
            self.say(protocol.result(request.id, answer))
        if request.method in ("hello", "resync") and self.whole_on_hello:
            self.say(protocol.snapshot(1, 1000.0, WHOLE))

    async def close(self) -> None:
        self.closed = True

    def say(self, line: bytes) -> None:
        self._out.put_nowait(line)

    def end(self, error: OperatorError | None = None) -> None:
        self._out.put_nowait(error if error is not None else b"")


class Dialler:
    """A way to connect that gives each pipe in turn, or fails."""

    def __init__(self, *ends: Scripted | OperatorError) -> None:
        self.ends = list(ends)
        self.tries = 0

    async def __call__(self) -> Scripted:
        self.tries += 1
        end = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        if isinstance(end, OperatorError):
            raise end
        return end


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same machine with short waits."""
    monkeypatch.setattr(controller_module, "PUBLISH_EVERY_S", 0.01)
    monkeypatch.setattr(controller_module, "WATCH_EVERY_S", 0.02)
    monkeypatch.setattr(controller_module, "STALE_AFTER_S", 0.15)
    monkeypatch.setattr(controller_module, "GIVE_UP_AFTER_S", 0.4)
    monkeypatch.setattr(controller_module, "PING_EVERY_S", 0.05)
    monkeypatch.setattr(controller_module, "backoff_s", lambda attempt, chance, network: 0.02)


async def seen(controller: Controller, condition: Callable[[View], bool]) -> View:
    view = await wait_for(controller, condition, 5.0)
    assert view is not None, controller.view.link
    return view


def state_is(state: LinkState) -> Callable[[View], bool]:
    return lambda view: view.link.state is state


async def started(*ends: Scripted | OperatorError) -> tuple[Controller, Dialler]:
    dialler = Dialler(*ends)
    controller = Controller("gpu-07", Options(), dialler)
    await controller.start()
    return controller, dialler


async def test_it_goes_live_with_the_first_snapshot_and_follows_patches() -> None:
    pipe = Scripted()
    controller, _ = await started(pipe)
    await seen(controller, state_is(LinkState.LIVE))
    pipe.say(protocol.patch(2, 1001.0, {"datasets": {"B1_glaive": {"tokens": 25}}}))
    view = await seen(controller, lambda view: view.snapshot is not None and view.snapshot.datasets[0].tokens == 25)
    assert view.snapshot is not None and view.snapshot.at == 1001.0
    assert view.snapshot.datasets[0].state == "partial", "what did not change is kept"
    await controller.close()
    assert pipe.closed and controller.view.link.state is LinkState.CLOSED


async def test_a_missing_patch_is_made_good_by_asking_for_the_whole() -> None:
    pipe = Scripted()
    controller, _ = await started(pipe)
    await seen(controller, state_is(LinkState.LIVE))
    pipe.say(protocol.patch(5, 1001.0, {"datasets": {"B1_glaive": {"tokens": 99}}}))
    await seen(controller, lambda view: "resync" in pipe.calls)
    assert controller.view.snapshot is not None and controller.view.snapshot.datasets[0].tokens == 10
    pipe.say(protocol.patch(2, 1002.0, {"datasets": {"B1_glaive": {"tokens": 26}}}))
    await seen(controller, lambda view: view.snapshot is not None and view.snapshot.datasets[0].tokens == 26)
    await controller.close()


async def test_silence_makes_it_stale_keeps_the_figures_and_then_connects_anew() -> None:
    silent, fresh = Scripted(ping=None), Scripted()
    controller, dialler = await started(silent, fresh)
    await seen(controller, state_is(LinkState.LIVE))
    view = await seen(controller, state_is(LinkState.STALE))
    assert view.snapshot is not None and view.snapshot.datasets[0].tokens == 10, "values never blank"
    assert view.link.age_s is not None and view.link.age_s >= 0.15 and not view.can_act
    await seen(controller, state_is(LinkState.LIVE))
    assert dialler.tries == 2 and silent.closed
    await controller.close()


async def test_a_tick_is_enough_to_stay_live() -> None:
    pipe = Scripted(ping=None)
    controller, dialler = await started(pipe)
    await seen(controller, state_is(LinkState.LIVE))
    states = set()
    controller.subscribe(lambda view: states.add(view.link.state))
    for number in range(30):
        pipe.say(protocol.tick(1000.0 + number))
        await asyncio.sleep(0.02)
    assert states == {LinkState.LIVE} and dialler.tries == 1
    await controller.close()


def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """As patient with silence as the console is: the test plays a link that says little."""
    monkeypatch.setattr(controller_module, "STALE_AFTER_S", 6.0)
    monkeypatch.setattr(controller_module, "GIVE_UP_AFTER_S", 25.0)


class Clock:
    """The steady clock, put forward by a sleep in which this process did not run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.slept_s = 0.0
        for module in (controller_module, conversation):
            monkeypatch.setattr(module, "steady_s", lambda: clock.steady_s() + self.slept_s)


async def test_after_a_sleep_nothing_is_fresh_until_the_agent_has_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    patient(monkeypatch)
    monkeypatch.setattr(controller_module, "WAKE_ANSWER_S", 5.0)
    ours = Clock(monkeypatch)
    pipe = Scripted(ping=None)
    controller, dialler = await started(pipe)
    await seen(controller, state_is(LinkState.LIVE))
    views: list[View] = []
    controller.subscribe(views.append)
    ours.slept_s = 3600.0
    # What had arrived before the sleep is read only now: it is old, whatever it looks like.
    pipe.say(protocol.tick(1001.0))
    pipe.say(protocol.patch(2, 1002.0, {"datasets": {"B1_glaive": {"tokens": 25}}}))
    view = await seen(controller, state_is(LinkState.STALE))
    assert view.link.age_s is not None and view.link.age_s >= 3600.0
    await seen(controller, lambda view: "ping" in pipe.calls)
    await asyncio.sleep(3 * controller_module.WATCH_EVERY_S)
    pipe.say(protocol.tick(1003.0))
    pipe.say(protocol.result(pipe.last_id, {"at": 4600.0}))
    view = await seen(controller, state_is(LinkState.LIVE))
    assert view.link.age_s is not None and view.link.age_s < 60.0 and dialler.tries == 1
    assert view.snapshot is not None and (view.snapshot.at, view.snapshot.datasets[0].tokens) == (1003.0, 25)
    states = [view.link.state for view in views]
    assert states == sorted(states, key=[LinkState.STALE, LinkState.LIVE].index), "once, and never in between"
    await controller.close()


async def test_a_link_that_a_sleep_has_killed_is_made_anew_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    patient(monkeypatch)
    monkeypatch.setattr(controller_module, "WAKE_ANSWER_S", 0.05)
    monkeypatch.setattr(controller_module, "backoff_s", lambda attempt, chance, network: 60.0)
    ours = Clock(monkeypatch)
    controller, dialler = await started(Scripted(ping=None), Scripted())
    await seen(controller, state_is(LinkState.LIVE))
    ours.slept_s = 60.0
    await seen(controller, state_is(LinkState.STALE))
    await seen(controller, state_is(LinkState.LIVE))
    assert dialler.tries == 2
    await controller.close()


async def test_a_pause_between_two_tries_does_not_outlast_a_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_module, "backoff_s", lambda attempt, chance, network: 60.0)
    ours = Clock(monkeypatch)
    controller, _ = await started(OperatorError("refused", "nobody listens", "start it"), Scripted())
    await seen(controller, lambda view: view.link.code == "refused")
    ours.slept_s = 60.0
    await seen(controller, state_is(LinkState.LIVE))
    await controller.close()


async def test_a_question_about_a_key_is_not_asked_anew_by_a_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """A laptop may wake in another network, where somebody else answers while the first key is on the screen."""
    ours = Clock(monkeypatch)
    controller, dialler = await started(OperatorError("host-key-unknown", "the key", "look at it"), Scripted())
    await seen(controller, state_is(LinkState.UNKNOWN_KEY))
    ours.slept_s = 3600.0
    await asyncio.sleep(5 * controller_module.WATCH_EVERY_S)
    assert dialler.tries == 1 and controller.view.link.state is LinkState.UNKNOWN_KEY
    await controller.close()


async def test_a_gap_is_told_however_short_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    patient(monkeypatch)
    monkeypatch.setattr(controller_module, "PUBLISH_EVERY_S", 0.3)
    monkeypatch.setattr(controller_module, "backoff_s", lambda attempt, chance, network: 0.0)
    pipes = [Scripted(), Scripted(), Scripted()]
    controller, dialler = await started(*pipes)
    await seen(controller, state_is(LinkState.LIVE))
    gaps: list[str] = []
    controller.subscribe(lambda view: gaps.append(view.link.error) if not view.link.fresh else None)
    for number, pipe in enumerate(pipes[:2]):
        pipe.end(OperatorError("link-lost", f"gap {number}"))
        await seen(controller, lambda view, number=number: view.link.fresh and dialler.tries == number + 2)  # type: ignore[misc]
    assert [gap for gap in dict.fromkeys(gaps) if gap] == ["gap 0", "gap 1"]
    await controller.close()


async def test_a_broken_link_is_mended_by_itself_and_the_last_look_stays() -> None:
    first, second = Scripted(), Scripted()
    controller, _ = await started(first, OperatorError("refused", "nobody listens", "start it"), second)
    await seen(controller, state_is(LinkState.LIVE))
    first.end(OperatorError("link-lost", "keepalive found the link dead"))
    view = await seen(controller, state_is(LinkState.RECONNECTING))
    assert view.snapshot is not None and not view.link.fresh
    await seen(controller, state_is(LinkState.LIVE))
    await controller.close()


@pytest.mark.parametrize(
    ("code", "state"), [("host-key-unknown", LinkState.UNKNOWN_KEY), ("host-key-changed", LinkState.CHANGED_KEY)]
)
async def test_a_key_question_waits_for_the_operator(code: str, state: LinkState) -> None:
    controller, dialler = await started(OperatorError(code, "the key", "look at it"), Scripted())
    view = await seen(controller, state_is(state))
    assert view.link.error == "the key" and view.link.remedy == "look at it" and view.link.next_try_at is None
    await asyncio.sleep(0.1)
    assert dialler.tries == 1, "it does not knock again by itself"
    controller.reconnect_now()
    await seen(controller, state_is(LinkState.LIVE))
    await controller.close()


async def test_calls_end_with_the_agents_error_with_the_link_or_with_their_time() -> None:
    pipe = Scripted(plan=OperatorError("no-root", "there is no folder /data", "check --root"), log=None, row={"x": 1})
    controller, _ = await started(pipe)
    with pytest.raises(OperatorError) as caught:
        await controller.call("row")
    assert caught.value.code == "link-down"
    await seen(controller, state_is(LinkState.LIVE))
    assert await controller.call("row") == {"x": 1}
    with pytest.raises(OperatorError) as caught:
        await controller.call("plan")
    assert (caught.value.code, caught.value.remedy) == ("no-root", "check --root")
    with pytest.raises(OperatorError) as caught:
        await controller.call("log", timeout_s=0.05)
    assert caught.value.code == "timeout"
    waiting = asyncio.create_task(controller.call("log"))
    await asyncio.sleep(0)
    pipe.end(OperatorError("link-lost", "reset by peer"))
    with pytest.raises(OperatorError) as caught:
        await waiting
    assert caught.value.code == "link-lost" and "unknown" in caught.value.remedy
    await controller.close()


async def test_rubbish_from_the_agent_is_counted_and_passed_over() -> None:
    pipe = Scripted()
    controller, _ = await started(pipe)
    await seen(controller, state_is(LinkState.LIVE))
    pipe.whole_on_hello = False  # nor an answer to `resync`, which would come after what follows
    for line in (b"Traceback (most recent call last):", b"\xff\xff", b"[]", b'{"method":"snapshot","params":{}}'):
        pipe.say(line)
    for params in ([], ["x"], [2, "now", {}], [2, 1000.0, 7], [True]):
        pipe.say(json.dumps({"jsonrpc": "2.0", "method": "patch", "params": params}).encode())
    pipe.say(protocol.snapshot(9, 1009.0, {"datasets": {"B1_glaive": 5}, "writers": "many", "generator": []}))
    view = await seen(controller, lambda view: view.snapshot is not None and view.snapshot.seq == 9)
    assert view.snapshot is not None and len(view.snapshot.misread) == 3
    await controller.close()


@pytest.mark.parametrize("at", ["1e999", "NaN", "-1", "1e18", "9" * 4000, "true", '"now"'])
async def test_a_moment_that_is_none_keeps_nothing_fresh_and_harms_nobody(at: str) -> None:
    pipe = Scripted(hello=None, ping=None)
    pipe.whole_on_hello = False
    controller, _ = await started(pipe)
    await seen(controller, lambda view: "hello" in pipe.calls)
    pipe.say(f'{{"jsonrpc":"2.0","id":{pipe.last_id},"result":{{"at":{at}}}}}'.encode())
    pipe.say(protocol.snapshot(1, 1000.0, WHOLE))
    await seen(controller, state_is(LinkState.LIVE))
    for _ in range(20):
        pipe.say(f'{{"jsonrpc":"2.0","method":"tick","params":[{at}]}}'.encode())
        await asyncio.sleep(0.02)
        if not controller.view.link.fresh:
            break
    view = controller.view
    assert not view.link.fresh and view.link.skew_s is None
    assert view.snapshot is not None and view.snapshot.at == 1000.0
    json.dumps(status_json(view), allow_nan=False)
    await controller.close()


async def test_a_link_that_fails_as_nobody_expected_is_told_of_and_made_anew() -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
    tries = 0

    async def connect() -> Scripted:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise ZeroDivisionError("mine")
        return Scripted()

    controller = Controller("gpu-07", Options(), connect)
    await controller.start()
    view = await seen(controller, lambda view: bool(view.link.error))
    assert view.link.code == "failed" and "ZeroDivisionError" in view.link.error
    await seen(controller, state_is(LinkState.LIVE))
    assert [context["message"] for context in told] == ["the link failed"]
    await controller.close()


async def test_a_subscriber_that_fails_blinds_no_other() -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
    controller, _ = await started(Scripted())

    def fails(view: View) -> None:
        raise RuntimeError("mine")

    controller.subscribe(fails)
    await seen(controller, state_is(LinkState.LIVE))
    assert any("subscriber" in context["message"] for context in told)
    await controller.close()


async def test_closing_takes_less_than_a_second_when_nothing_answers() -> None:
    class Frozen(Scripted):
        async def write(self, data: bytes) -> None:
            if protocol.parse_request(data).method == "bye":
                await asyncio.Event().wait()
            await super().write(data)

        async def close(self) -> None:
            await asyncio.Event().wait()

    controller, _ = await started(Frozen())
    await seen(controller, state_is(LinkState.LIVE))
    async with asyncio.timeout(1.5):
        await controller.close()


async def test_closing_while_connecting_hangs_nowhere() -> None:
    async def never() -> Scripted:
        await asyncio.Event().wait()
        raise AssertionError

    controller = Controller("gpu-07", Options(), never)
    await controller.start()
    await asyncio.sleep(0.01)
    async with asyncio.timeout(1.5):
        await controller.close()


async def test_a_command_without_a_screen_gets_the_first_error_and_no_second_try() -> None:
    dialler = Dialler(OperatorError("refused", "10.0.0.7:22 refused the connection", "check the port"))
    with pytest.raises(OperatorError) as caught:
        async with open_controller("gpu-07", Options(), dialler, timeout_s=5):
            pass
    assert caught.value.code == "refused" and dialler.tries == 1


async def test_a_command_without_a_screen_waits_until_all_has_been_looked_at() -> None:
    pipe = Scripted()
    pipe.whole_on_hello = False
    pipe.say(protocol.snapshot(1, 1000.0, {**WHOLE, "pending": ["datasets", "gpus"]}))
    pipe.say(protocol.patch(2, 1000.5, {"pending": ["gpus"]}))
    pipe.say(protocol.patch(3, 1001.0, {"pending": None, "gpus": {"detail": "no GPU"}}))
    async with open_controller("gpu-07", Options(), Dialler(pipe), timeout_s=5) as controller:
        assert controller.view.snapshot is not None and controller.view.snapshot.gpus.detail == "no GPU"
        assert controller.view.link.fresh


async def test_a_root_that_cannot_be_read_is_an_error_and_not_eight_blanks() -> None:
    pipe = Scripted()
    pipe.whole_on_hello = False
    blank = {"datasets": {"B1_glaive": {"id": "B1"}}, "problems": ["datasets: there is no folder /data"]}
    pipe.say(protocol.snapshot(1, 1000.0, blank))
    with pytest.raises(OperatorError, match="there is no folder /data"):
        async with open_controller("gpu-07", Options(), Dialler(pipe), timeout_s=5):
            pass


def test_backoff_doubles_to_its_limit_and_is_spread() -> None:
    middle = [backoff_s(attempt, 0.5) for attempt in range(1, 12)]
    assert middle == sorted(middle) and middle[0] == 0.5 and middle[-1] == LONGEST_PAUSE_S
    assert backoff_s(3, 0.0) < backoff_s(3, 0.99) <= 1.5 * backoff_s(3, 0.5)
    assert backoff_s(10**9, 0.5) == LONGEST_PAUSE_S


def test_what_trying_again_cannot_mend_is_left_to_the_operator() -> None:
    permanent = OperatorError("no-python", "no python3 there")
    permanent.permanent = True  # type: ignore[attr-defined]
    assert after_failure(permanent) == (LinkState.FAILED, False)
    assert after_failure(permanent, was_live=True) == (LinkState.RECONNECTING, True), "it may be starting"
    assert after_failure(OperatorError("not-let-in", "no"), was_live=True) == (LinkState.FAILED, False)
    assert after_failure(OperatorError("usage", "what?", exit_code=ExitCode.USAGE)) == (LinkState.FAILED, False)
    assert after_failure(OperatorError("timeout", "slow")) == (LinkState.RECONNECTING, True)
