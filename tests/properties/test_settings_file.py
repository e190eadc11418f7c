"""What is saved is read back; where a value comes from is told; precedence holds for every option."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.profiles import free_name, save_profile
from console.settings import load_settings
from console.target import Target
from remote.errors import OperatorError
from remote.options import TABLE, Budget, Option

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=20)
ADDRESSES = st.builds(
    Target,
    name=st.just("saved"),
    host=st.sampled_from(["gpu.example", "10.0.0.7", "::1"]),
    user=st.none() | st.sampled_from(["root", "me"]),
    port=st.none() | st.integers(1, 65535),
    identities=st.lists(TEXTS, max_size=2).map(tuple),
    known_hosts=st.none() | TEXTS,
    jump=st.none() | st.just("gate"),
    ssh_options=st.lists(TEXTS, max_size=2).map(tuple),
    config_file=st.none() | TEXTS,
)


@settings(max_examples=60, deadline=None)
@given(ADDRESSES, TEXTS)
def test_a_saved_profile_is_read_back_and_the_rest_of_the_file_stays(target: Target, root: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "deep" / "config.toml"
        path.parent.mkdir()
        before = '# mine\n[profiles.old]\nhost = "old.example" # kept\n'
        path.write_text(before)
        save_profile(path, "saved", target, {"root": root, "read_only": True, "max_samples": 7})
        assert path.read_text().startswith(before)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        loaded = load_settings("saved", {"config": str(path)}, {})
        assert loaded.target == target
        assert (loaded.options.root, loaded.options.read_only, loaded.options.max_samples) == (root, True, 7)
        assert loaded.sources["root"] == "profile saved" and loaded.sources["engine_url"] == "default"
        with pytest.raises(OperatorError):
            save_profile(path, "saved", target)


EXAMPLES: dict[str, tuple[str, str, str]] = {
    "token_budget": ("1M", "2M", "3M"),
    "datasets": ("B1", "B2", "B3"),
    "sampling": ('{"a":1}', '{"a":2}', '{"a":3}'),
    "template_kwargs": ('{"a":1}', '{"a":2}', '{"a":3}'),
    "on_length": ("keep", "drop", "keep"),
    "retokenize": ("auto", "always", "never"),
    "engine_url": ("http://one.example:1", "http://two.example:1", "https://three.example"),
    "notify": ("https://one.example/a", "https://two.example/a", "https://three.example/a"),
    "heartbeat": ("https://one.example/b", "https://two.example/b", "https://three.example/b"),
}


def values(option: Option) -> tuple[str, str, str]:
    """Three different texts that an option takes: for the profile, the environment and the command line."""
    if option.switch:
        return ("true", "false", "true")
    if option.name in EXAMPLES:
        return EXAMPLES[option.name]
    try:
        option.parse("1")
        return ("1", "2", "3")
    except OperatorError:
        return ("/one", "/two", "/three")


@pytest.mark.parametrize("option", [option for option in TABLE if option.side != "console"], ids=lambda o: o.name)
def test_command_line_over_environment_over_profile_over_default(option: Option, tmp_path: Path) -> None:
    profile, variable, flag = values(option)
    path = tmp_path / "config.toml"
    text = profile if option.switch else f"'{profile}'"
    path.write_text(f'[profiles.p]\nhost = "h"\n{option.name} = {text}\n')

    def load(flags: dict[str, Any], environment: dict[str, str], name: str = "p") -> tuple[Any, str]:
        found = load_settings(name, {"config": str(path), **flags}, environment)
        holder = found.options if hasattr(found.options, option.name) else found
        return getattr(holder, option.name), found.sources[option.name]

    given_flag: Any = True if option.switch else [flag] if option.many else flag
    assert load({}, {}, "other-host") == (option.default, "default")
    assert load({}, {}) == (option.read(profile, ""), "profile p")
    assert load({}, {option.variable: variable}) == (option.read(variable, ""), option.variable)
    assert load({option.name: given_flag}, {option.variable: variable}) == (option.read(given_flag, ""), "command line")


WRONG = [
    ("x = 1", "no setting 'x'"),
    ("profils.a.host = 'h'", "did you mean profiles"),
    ("[profiles.p]\ntoken_bugdet = 1", "did you mean token_budget"),
    ("[profiles.p]\ntoken_budget = 'lots'", "token_budget.*lots.*10M"),
    ("[profiles.p]\ntoken_budget = true", "token_budget.*True"),
    ("[profiles.p]\nread_only = 'maybe'", "read_only.*maybe.*true or false"),
    ("[profiles.p]\nport = 'ssh'", "ssh.*not a port"),
    ("[profiles.p]\nhost = 5", "host.*5"),
    ("[profiles.p]\nhost = 'two words'", "two words"),
    ("[profiles.p]\nidentity = 5", "identity.*5"),
    ("[profiles.p]\ncolor = 'pink'", "pink.*red"),
    ("[profiles.p]\non_length = 'shrug'", "shrug.*keep, drop"),
    ("[profiles.p]\nsampling = 'hot'", "sampling.*hot"),
    ("[profiles.p]\nsampling = {t = 1979-05-27}", "sampling"),
    ("[profiles.p]\nthresholds = {stale_ss = 1}", "stale_ss.*stale_s"),
    ("[profiles.p]\nthresholds = {stale_s = 'x'}", "stale_s"),
    ("[profiles.p]\ndatasets = 1979-05-27", "datasets"),
    ("[profiles.local]\nhost = 'h'", "local"),
    ("profiles = 3", "profiles.*3.*table"),
    ("default_profile = 'gone'\n[profiles.p]\nhost = 'h'", "gone"),
    ("[profiles.p\n", "not TOML.*line 1"),
    ("\udcff", "UTF-8"),
]


@pytest.mark.parametrize(("text", "complaint"), WRONG)
def test_a_wrong_settings_file_is_named_with_key_value_and_what_is_allowed(
    text: str, complaint: str, tmp_path: Path
) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(OperatorError, match=f"(?s){complaint}") as told:
        load_settings("p", {"config": str(path)}, {})
    assert str(path) in str(told.value) and "\n" not in str(told.value)


def test_a_wrong_variable_or_flag_is_named(tmp_path: Path) -> None:
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    with pytest.raises(OperatorError, match=r"EAGLE3_CONCURRENCY.*'none'"):
        load_settings("h", {}, {**environment, "EAGLE3_CONCURRENCY": "none"})
    with pytest.raises(OperatorError, match=r"--drain-s.*'soon'"):
        load_settings("h", {"drain_s": "soon"}, environment)
    with pytest.raises(OperatorError, match="no settings file"):
        load_settings("h", {"config": str(tmp_path / "gone")}, environment)


def test_native_toml_values_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(
        'default_profile = "p"\nthresholds = {stale_s = 5}\nsampling = {temperature = 0.5}\n[profiles.p]\n'
        'host = "ssh me@gpu.example -p 2222"\ntoken_budget = {default = "8M", B4 = 20_000_000}\n'
        'datasets = ["B1", "B2"]\nmax_samples = 1_000\nprice_per_hour = 16.5\ncolor = "red"\n'
        'accept = ["one", "two"]\nnotify = ["https://ntfy.sh/topic"]\nthresholds = {no_answer_s = 300}\n'
    )
    found = load_settings(None, {"config": str(path)}, {})
    assert found.target is not None and (str(found.target), found.name) == ("me@gpu.example:2222", "p")
    options = found.options
    assert options.token_budget == Budget(8_000_000, {"B4": 20_000_000})
    assert (options.datasets, options.max_samples, options.price_per_hour) == (("B1", "B2"), 1000, 16.5)
    assert options.accept == ("one", "two") and options.sampling == {"temperature": 0.5}
    assert (found.color, found.thresholds.stale_s, found.thresholds.no_answer_s) == ("red", 5, 300)


def test_the_api_key_is_in_no_repr(tmp_path: Path) -> None:
    found = load_settings("h", {}, {"XDG_CONFIG_HOME": str(tmp_path), "EAGLE3_API_KEY": "sk-secret"})
    assert found.api_key == "sk-secret" and "sk-secret" not in repr(found)


def test_flags_of_the_link_reach_the_target(tmp_path: Path) -> None:
    environment = {"XDG_CONFIG_HOME": str(tmp_path), "EAGLE3_KNOWN_HOSTS": "/variable"}
    found = load_settings("h", {"identity": "/flag"}, environment)
    assert found.target == Target("h", host="h", identities=("/flag",), known_hosts="/variable")


def test_free_names_are_free() -> None:
    target = Target("x", host="gpu-17.example.com")
    assert free_name(target, {}) == "gpu-17"
    assert free_name(target, {"gpu-17": 1, "gpu-17-2": 1}) == "gpu-17-3"
    assert free_name(Target("x", host="::1"), {}) == "1" and free_name(Target("x", host="local"), {}) == "local-2"


def test_a_linked_settings_file_stays_a_link(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text("")
    path = tmp_path / "config.toml"
    path.symlink_to(real)
    save_profile(path, "p", Target("p", host="h"))
    assert os.path.islink(path) and "[profiles.p]" in real.read_text()
