"""What may be typed as TARGET: it becomes an address that names the same place again, or one clear refusal."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from console.sshconfig import ssh_arguments
from console.target import Target, parse_target
from remote.errors import OperatorError
from remote.exitcodes import ExitCode

NAMES = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,12}[a-z0-9])?", fullmatch=True).filter(
    lambda name: name not in ("local", "demo")
)
HOSTS = st.one_of(NAMES, st.ip_addresses().map(str))
USERS = st.none() | st.from_regex(r"[a-z_][a-z0-9_-]{0,8}", fullmatch=True)
PORTS = st.none() | st.integers(1, 65535)
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=12).filter(
    lambda word: not word.startswith("-")
)


@given(HOSTS, USERS, PORTS)
def test_an_address_says_what_it_was_given(host: str, user: str | None, port: int | None) -> None:
    target = Target("x", host=host, user=user, port=port)
    again = parse_target(str(target))
    assert (again.host, again.user, again.port) == (host, user, port)


@given(HOSTS, USERS, PORTS, st.lists(WORDS, max_size=2), st.none() | NAMES, st.lists(WORDS, max_size=2), st.booleans())
def test_a_pasted_command_keeps_what_matters(
    host: str, user: str | None, port: int | None, keys: list[str], jump: str | None, options: list[str], first: bool
) -> None:
    place = f"{user}@{host}" if user else host
    flags = [word for key in keys for word in ("-i", key)]
    flags += ["-p", str(port)] if port else []
    flags += ["-J", jump] if jump else []
    flags += [word for option in options for word in ("-o", option)]
    words = ["ssh", *flags, "-A", "-tt", "-L", "1:h:2", place] if first else ["ssh", "-N", place, *flags, "-v"]
    target = parse_target(shlex.join(words))
    assert (target.host, target.user, target.port) == (host, user, port)
    assert (list(target.identities), target.jump, list(target.ssh_options)) == (keys, jump, options)


@given(st.text(max_size=40))
@example("-oProxyCommand=evil")
@example("ssh -oProxyCommand=evil")
@example("root@-oProxyCommand=evil")
@example("ssh -- -oProxyCommand=evil")
@example("ssh://-oProxyCommand=evil")
def test_whatever_is_typed_gives_a_target_or_one_line(text: str) -> None:
    try:
        target = parse_target(text)
    except OperatorError as error:
        assert error.exit_code is ExitCode.USAGE and "\n" not in str(error)
        return
    assert not target.host.startswith("-")
    if target.kind == "ssh":
        words = ssh_arguments(target)
        assert words[-2:] == ["--", target.host]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no target"),
        ("host:", "without a port"),
        ("host:0", "not a port"),
        ("host:99999", "not a port"),
        ("two words", "neither a profile nor an address"),
        ("ssh -p", "no value"),
        ("ssh -Z host", "not known"),
        ("ssh -S /tmp/socket host", "cannot be used"),
        ("ssh 'root@host", "quotes"),
        ("ssh -p 22", "names no host"),
        ("ssh -l '$(reboot)' host", "cannot be a user's name"),
        ("ssh host -l -oProxyCommand=x", "cannot be a user's name"),
    ],
)
def test_what_is_wrong_is_said(text: str, complaint: str) -> None:
    with pytest.raises(OperatorError, match=complaint):
        parse_target(text)


def test_a_profile_wins_over_a_host_of_that_name() -> None:
    assert parse_target("gpu8", ["gpu8"]) == Target("gpu8")
    assert replace(parse_target("gpu8"), name="") == Target("", host="gpu8")
