"""Posts from the container: each in its service's shape, retried when that can help, never in the way of the run."""

from __future__ import annotations

import json
import signal
import socket
import threading

import pytest

from remote import chronicle
from remote.chronicle import STALL_S, Stall
from remote.history import read_history
from remote.identity import send
from remote.layout import Layout
from remote.notify import Notice, post, request_for, shape_of
from remote.options import Options
from remote.progress import write_progress
from remote.runfile import Run
from remote.stop import stop_run
from tests.support.runs import BY, launch_fake, until
from tests.support.sink import sink

NOTICE = Notice("stalled", "no new answer for 15 minutes", "gpu-7", "/data/x", "r1", 100.0)


@pytest.mark.parametrize(
    ("address", "shape", "url"),
    [
        ("https://hooks.slack.com/services/a/b", "slack", "https://hooks.slack.com/services/a/b"),
        ("https://ntfy.sh/topic", "ntfy", "https://ntfy.sh/topic"),
        ("https://ntfy.example.org/topic", "ntfy", "https://ntfy.example.org/topic"),
        ("slack+https://mattermost.example.org/hooks/x", "slack", "https://mattermost.example.org/hooks/x"),
        ("ntfy+http://10.0.0.1/topic", "ntfy", "http://10.0.0.1/topic"),
        ("generic+https://ntfy.sh/topic", "generic", "https://ntfy.sh/topic"),
        ("https://example.org/hook", "generic", "https://example.org/hook"),
    ],
)
def test_the_shape_follows_from_the_address(address: str, shape: str, url: str) -> None:
    assert shape_of(address) == (shape, url)
    assert request_for(address, NOTICE).full_url == url


def test_each_shape_on_the_wire() -> None:
    with sink() as server:
        addresses = [f"{server.url}/hook", f"slack+{server.url}/s", f"ntfy+{server.url}/topic"]
        assert post(addresses, NOTICE) == []
        generic, slack, ntfy = server.wait(3)
    assert json.loads(generic.body) == NOTICE.to_json()
    assert json.loads(slack.body) == {"text": "eagle3 stalled on gpu-7: no new answer for 15 minutes"}
    assert ntfy.body == b"no new answer for 15 minutes"
    assert (ntfy.headers["Title"], ntfy.headers["Priority"]) == ("eagle3 stalled on gpu-7", "high")


def test_what_can_pass_is_retried_and_a_refusal_is_not() -> None:
    pauses: list[float] = []
    with sink(503, 429) as server:
        assert post([f"{server.url}/a"], NOTICE, pause=pauses.append) == []
        assert len(server.wait(3)) == 3 and pauses == [2.0, 4.0]
    with sink(404) as server:
        assert post([f"{server.url}/secret"], NOTICE, pause=pauses.append) == [
            f"could not post stalled to {server.url}/***: HTTP 404"
        ]
        assert len(server.wait(1)) == 1
    with sink(500, 500, 500) as server:
        assert "HTTP 500" in post([f"{server.url}/a"], NOTICE, pause=pauses.append)[0]


def test_one_dead_address_does_not_keep_the_next_from_its_post() -> None:
    with socket.socket() as deaf, sink() as server:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(16)
        silent = f"http://127.0.0.1:{deaf.getsockname()[1]}/secret"
        said = post(
            ["http://127.0.0.1:9/secret", silent, "nonsense", f"{server.url}/a"], NOTICE, 0.2, pause=lambda s: None
        )
        assert len(said) == 3 and len(server.wait(1)) == 1
        assert not any("secret" in line for line in said)


def test_a_server_that_speaks_no_http() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(4)

        def answer() -> None:
            for _ in range(3):
                peer, _ = listener.accept()
                peer.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
                peer.close()

        threading.Thread(target=answer, daemon=True).start()
        said = post([f"http://127.0.0.1:{listener.getsockname()[1]}/x"], NOTICE, 5.0, pause=lambda s: None)
        assert len(said) == 1 and "could not post" in said[0]


def test_a_run_tells_its_start_and_its_end_though_nobody_is_connected(layout: Layout) -> None:
    with sink() as server:
        launched = launch_fake(layout, notify=(f"{server.url}/hook",))
        started = json.loads(server.wait(1)[0].body)
        assert (started["event"], started["run"], started["root"]) == ("started", launched.run_id, str(layout.root))
        assert BY in started["text"]
        assert launched.identity is not None
        send(launched.identity, signal.SIGKILL)
        ended = json.loads(server.wait(2)[1].body)
        assert (ended["event"], ended["text"]) == ("ended", "killed by SIGKILL; cause unknown")


def test_a_dead_address_never_delays_a_stop_nor_the_next_start(layout: Layout) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(16)
        address = f"http://127.0.0.1:{deaf.getsockname()[1]}/x"
        for _ in range(2):
            launched = launch_fake(layout, notify=(address,))
            assert stop_run(layout, "drain", 5, launched.identity, BY).done
    assert Options(notify=(address,)) == Options.from_json(Options(notify=(address,)).to_json())


def test_a_stall_is_told_once_and_its_end_once() -> None:
    stall = Stall()
    looks: list[tuple[float, dict[str, object]]] = [
        *[(minute * 60.0, {"answers": 5}) for minute in range(40)],
        *[(minute * 60.0, {"answers": 6}) for minute in range(40, 45)],
        (45 * 60.0, {}),
        *[(minute * 60.0, {"answers": 6, "paused": True}) for minute in range(46, 90)],
        *[(minute * 60.0, {"answers": 6}) for minute in range(90, 104)],
    ]
    told = [(now / 60, said) for now, progress in looks if (said := stall.look(now, progress))]
    assert told == [(STALL_S / 60, "stalled"), (40, "recovered")]


def test_a_line_of_history_a_minute_and_a_stall_are_the_supervisors_own(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The minute made short; everything else as it runs in the supervisor."""
    layout.make_state()
    run = Run("r1", ("x",), Options(root=str(layout.root)), 0.0, BY, "rel")
    write_progress(layout, {"run": "r1", "answers": 5, "in_flight": 3, "engine_state": "down", "rate_tokens_s": 9.0})
    monkeypatch.setattr(chronicle, "EVERY_S", 0.05)
    monkeypatch.setattr(chronicle, "gpus", lambda: {"rows": [], "detail": "none"})
    said: list[str] = []
    with sink() as server:
        kept = chronicle.Chronicle(layout, run, (server.url,), said.append)
        kept.start()
        assert read_history(layout, 0.0) == [], "nothing before the generator is ready"
        kept.stall.limit_s = 0.1
        kept.ready()
        until(lambda: len(read_history(layout, 0.0)) >= 3)
        events = [json.loads(one.body) for one in server.wait(2)]
        write_progress(layout, {"run": "r1", "answers": 6})
        events.append(json.loads(server.wait(3)[2].body))
        kept.stop()
        kept.ended("it did all that could be done")
        events.append(json.loads(server.wait(4)[3].body))
    assert [event["event"] for event in events] == ["started", "stalled", "recovered", "ended"]
    assert "engine: down" in events[1]["text"] and said == []
    row = read_history(layout, 0.0)[0]
    assert (row["run"], row["in_flight"], row["engine"], row["rate_tokens_s"]) == ("r1", 3.0, "down", 9.0)
