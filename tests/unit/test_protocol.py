"""The messages of the link: what one end writes, the other reads; anything else is refused by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote import protocol
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.protocol import BadMessage, Notification, Request, Response, parse_from_agent, parse_request


def test_a_request_arrives_as_it_was_sent() -> None:
    line = protocol.request(7, "log", {"bytes": 10, "search": "é\n"})
    assert line.count(b"\n") == 1
    assert parse_request(line) == Request(7, "log", {"bytes": 10, "search": "é\n"})


def test_no_error_is_a_success() -> None:
    sent = {**OperatorError("no-root", "there is none").to_json(), "exit_code": 0}
    assert OperatorError.from_json(sent).exit_code is ExitCode.FAILED


def test_an_error_keeps_its_code_remedy_and_exit_code() -> None:
    sent = OperatorError("disk", "the disk is full", "make room", ExitCode.DISK)
    read = parse_from_agent(protocol.failure(3, sent))
    assert isinstance(read, Response) and read.error is not None
    assert read.error.to_json() == sent.to_json()


def test_text_in_an_error_is_cleaned_before_anybody_sees_it() -> None:
    read = parse_from_agent(protocol.failure(3, OperatorError("x", "a\x1b[31mb", "c\x07d")))
    assert isinstance(read, Response) and read.error is not None
    assert "\x1b" not in str(read.error) and "\x07" not in str(read.error)


def test_lone_surrogates_do_not_break_the_link() -> None:
    read = parse_from_agent(protocol.result(1, "a\udc80b"))
    assert isinstance(read, Response) and read.result == "a?b"


def test_an_idle_tick_costs_at_most_64_bytes() -> None:
    line = protocol.tick(1764588000.987654)
    assert len(line) <= 64
    assert parse_from_agent(line) == Notification("tick", [1764588001.0])


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"{}",
        b'{"id":1}',
        b'{"id":true,"method":"x"}',
        b'{"method":"x","params":[]}',
        b"{" * 100_000,
        b"\xff\xfe",
        b"5",
    ],
)
def test_what_is_no_request_is_refused(line: bytes) -> None:
    with pytest.raises(BadMessage):
        parse_request(line)


@pytest.mark.parametrize(
    "line", [b"", b"[]", b"{}", b'{"id":{},"result":1}', b'{"method":"tick","params":{}}', b"[" * 100_000]
)
def test_what_is_no_answer_is_refused(line: bytes) -> None:
    with pytest.raises(BadMessage):
        parse_from_agent(line)


@given(st.binary(max_size=200))
def test_no_bytes_make_reading_fail_in_another_way(line: bytes) -> None:
    for read in (parse_request, parse_from_agent):
        try:
            read(line)  # type: ignore[operator]
        except BadMessage:
            continue


def test_the_ready_line_is_found_behind_noise_and_nothing_else_is() -> None:
    line = protocol.ready_line("m-123", {"pid": 5})
    assert line.startswith(b"\nm-123 ready ")
    assert protocol.parse_ready(line.strip(), "m-123") == {"pid": 5}
    assert protocol.parse_ready(line.strip(), "m-124") is None
    assert protocol.parse_ready(b"m-123 ready {broken", "m-123") is None


def test_nan_never_leaves() -> None:
    with pytest.raises(ValueError):
        protocol.encode({"at": float("nan")})
