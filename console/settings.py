"""Settings: command line over environment over profile over default, each value with its source.

The file is `config.toml` in the user's configuration folder (`$XDG_CONFIG_HOME/eagle3-console`):

    default_profile = "gpu8"

    [sampling]                      # for every profile that has none of its own
    temperature = 1.0

    [profiles.gpu8]
    host = "ssh root@1.2.3.4 -p 22001"
    token_budget = "10M"
    thresholds = { no_answer_s = 300 }
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import platformdirs
import tomllib

from console.invoked import program
from console.target import Target, parse_port, parse_target
from console.thresholds import Thresholds, read_thresholds
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.options import TABLE, Option, Options
from remote.text import clean

APP = "eagle3-console"
COLORS = ("red", "yellow", "green", "blue", "magenta", "cyan")
_ADDRESS_KEYS = ("host", "user", "port", "identity", "known_hosts", "jump")
_LOOK_KEYS = ("color", "thresholds")
_TOP_KEYS = ("default_profile", "profiles", "sampling", "template_kwargs", "thresholds")
_BY_NAME: dict[str, Option] = {option.name: option for option in TABLE}


@dataclass(frozen=True)
class Profile:
    """What one `[profiles.NAME]` says beyond options: its target, its colour, its alert thresholds."""

    target: Target
    given: Mapping[str, Any] = field(default_factory=dict)
    """Its option values, read and checked."""
    color: str = ""
    thresholds: Thresholds = field(default_factory=Thresholds)


@dataclass(frozen=True)
class Settings:
    """Everything that was decided before anything is connected.

    `target` is None when none was asked for. `sources` tells for each option `command line`, the
    variable's name, `profile NAME`, the file's `[sampling]`, or `default`. `api_key` is the
    engine's, from `EAGLE3_API_KEY`: it travels over the link only and is in no repr.
    """

    target: Target | None
    options: Options
    sources: Mapping[str, str]
    profile: str | None
    profiles: Mapping[str, Profile]
    color: str
    thresholds: Thresholds
    path: Path
    api_key: str | None = field(default=None, repr=False)
    heartbeat: str | None = field(default=None, repr=False)
    """What `watch --notify` requests while it sees the container live, every `heartbeat_s`; a secret."""
    heartbeat_s: float = 60.0

    @property
    def name(self) -> str:
        """The target's name for the top line; empty without a target."""
        return self.target.name if self.target is not None else ""


def _usage(message: str, remedy: str = "") -> OperatorError:
    return OperatorError("settings", message, remedy, ExitCode.USAGE)


def config_folder(environment: Mapping[str, str]) -> Path:
    """Where the settings and the pinned host keys lie."""
    base = environment.get("XDG_CONFIG_HOME", "")
    return Path(base) / APP if os.path.isabs(base) else platformdirs.user_config_path(APP)


def load_settings(
    target: str | None = None,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """The settings for one call of the program.

    `target` is what the operator typed, None for the default profile; `flags` maps option names
    to what the command line gave (text, True for a switch, a list for options given repeatedly);
    absent or None means not given. Raises OperatorError that names file or flag, key, value and
    what is allowed.
    """
    flags = {name: value for name, value in (flags or {}).items() if value is not None and value != ()}
    environment = os.environ if environment is None else environment
    path, must_exist = _config_path(flags, environment)
    file = _read_file(path, must_exist)
    profiles = file.profiles
    wanted = target or environment.get("EAGLE3_TARGET") or file.default_profile
    aimed = parse_target(wanted, profiles) if wanted else None
    profile = profiles.get(aimed.name) if aimed is not None and not aimed.host else None
    if profile is not None and aimed is not None:
        aimed = profile.target
    if aimed is not None and aimed.kind == "demo":
        aimed, profile = _demo()
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for option in TABLE:
        values[option.name], sources[option.name] = _choose(option, flags, environment, file, profile)
    identity, known_hosts = values.pop("identity"), values.pop("known_hosts")
    heartbeat, heartbeat_s = values.pop("heartbeat"), values.pop("heartbeat_s")
    values.pop("config")
    if aimed is not None and identity:
        aimed = replace(aimed, identities=(identity,))
    if aimed is not None and known_hosts:
        aimed = replace(aimed, known_hosts=known_hosts)
    return Settings(
        target=aimed,
        options=Options(**values),
        sources=sources,
        profile=profile.target.name if profile is not None else None,
        profiles=profiles,
        color=profile.color if profile else "",
        thresholds=profile.thresholds if profile else file.thresholds,
        path=path,
        api_key=environment.get("EAGLE3_API_KEY") or None,
        heartbeat=heartbeat,
        heartbeat_s=heartbeat_s,
    )


def _demo() -> tuple[Target, Profile]:
    """The running demo as a target and the profile that its options make."""
    from console.demo import container

    info = container.info()
    if info is None:
        raise _usage("the demo is not running", f"start it with {program()} demo, or demo --container-only")
    given = {name: _BY_NAME[name].parse(text) for name, text in info.options().items()}
    return info.address, Profile(info.address, given)


@dataclass(frozen=True)
class _File:
    path: Path
    profiles: Mapping[str, Profile]
    default_profile: str | None
    shared: Mapping[str, Any]
    thresholds: Thresholds


def _config_path(flags: Mapping[str, Any], environment: Mapping[str, str]) -> tuple[Path, bool]:
    named = flags.get("config") or environment.get("EAGLE3_CONFIG")
    return (Path(named).expanduser(), True) if named else (config_folder(environment) / "config.toml", False)


def _choose(
    option: Option, flags: Mapping[str, Any], environment: Mapping[str, str], file: _File, profile: Profile | None
) -> tuple[Any, str]:
    if option.name in flags:
        return option.read(flags[option.name], option.flag), "command line"
    if environment.get(option.variable):
        return option.read(environment[option.variable], option.variable), option.variable
    if profile is not None and option.name in profile.given:
        return profile.given[option.name], f"profile {profile.target.name}"
    if option.name in file.shared:
        return file.shared[option.name], f"[{option.name}] in {file.path}"
    return option.default, "default"


def _read_file(path: Path, must_exist: bool) -> _File:
    try:
        table = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        if must_exist:
            raise _usage(f"there is no settings file {path}", "check --config or EAGLE3_CONFIG") from None
        table = {}
    except OSError as error:
        raise _usage(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise _usage(f"{path} is not UTF-8 text", "save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise _usage(f"{path} is not TOML: {clean(error)}", "mend that line") from None
    return _read_tables(path, table)


def _read_tables(path: Path, table: Mapping[str, Any]) -> _File:
    _known(table, _TOP_KEYS, str(path))
    shared = {key: _option(key, table[key], f"{path}: ") for key in ("sampling", "template_kwargs") if key in table}
    base = _table(table.get("thresholds", {}), f"{path}: thresholds")
    thresholds = read_thresholds(base, f"{path}: [thresholds]")
    profiles: dict[str, Profile] = {}
    for name, body in _table(table.get("profiles", {}), f"{path}: profiles").items():
        where = f"{path}: [profiles.{name}]"
        profiles[name] = _read_profile(name, _table(body, where), where, base)
    default = table.get("default_profile")
    if default is not None and default not in profiles:
        raise _usage(f"{path}: default_profile {default!r} is no profile", _nearest(str(default), profiles))
    return _File(path, profiles, default, shared, thresholds)


def _read_profile(name: str, body: Mapping[str, Any], where: str, base: Mapping[str, Any]) -> Profile:
    if name in ("local", "demo"):
        raise _usage(f"{where}: a profile cannot be named {name}", "that word is a target by itself")
    options = [option.name for option in TABLE if option.side != "console"]
    _known(body, (*_ADDRESS_KEYS, *_LOOK_KEYS, *options), where)
    given = {key: _option(key, value, f"{where} ") for key, value in body.items() if key in options}
    color = body.get("color", "")
    if color and color not in COLORS:
        raise _usage(f"{where} color: {color!r} is not allowed", f"write one of {', '.join(COLORS)}")
    own = {**base, **_table(body.get("thresholds", {}), f"{where} thresholds")}
    return Profile(_read_address(name, body, where), given, color, read_thresholds(own, f"{where} thresholds"))


def _read_address(name: str, body: Mapping[str, Any], where: str) -> Target:
    texts = {key: body[key] for key in ("host", "user", "known_hosts", "jump") if key in body}
    for key, value in texts.items():
        if not isinstance(value, str) or not value:
            raise _usage(f"{where} {key}: {value!r} is not text", f'write {key} = "…"')
    try:
        target = parse_target(texts.get("host", name))
        port = body.get("port")
        if port is not None:
            target = replace(target, port=parse_port(str(port)))
    except OperatorError as error:
        raise _usage(f"{where}: {error.message}", error.remedy) from None
    identity = body.get("identity", [])
    identities = [identity] if isinstance(identity, str) else identity
    if not isinstance(identities, list) or not all(isinstance(item, str) for item in identities):
        raise _usage(f"{where} identity: {identity!r} is not a file", 'write identity = "~/.ssh/id_ed25519"')
    return replace(
        target,
        name=name,
        user=texts.get("user", target.user),
        identities=(*identities, *target.identities),
        known_hosts=texts.get("known_hosts"),
        jump=texts.get("jump", target.jump),
    )


def _option(name: str, value: Any, where: str) -> Any:
    """A TOML value as the option's own: what a file may write natively becomes the text that flags take."""
    option = _BY_NAME[name]
    if option.switch:
        if not isinstance(value, bool):
            raise _usage(f"{where}{name}: {value!r} is not allowed", "write true or false")
        return value
    if isinstance(value, bool):
        raise _usage(f"{where}{name}: {value!r} is not allowed", f"write {name} = {option.metavar}")
    if option.many:
        items = value if isinstance(value, list) else [value]
        if not all(isinstance(item, str) for item in items):
            raise _usage(f"{where}{name}: {value!r} is not a list of texts", f'write {name} = ["…"]')
        return option.read(items, f"{where}{name}")
    return option.read(_as_text(name, value, where), f"{where}{name}")


def _as_text(name: str, value: Any, where: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)):
        return str(value)
    if name in ("sampling", "template_kwargs") and isinstance(value, dict):
        try:
            return json.dumps(value)
        except TypeError:
            raise _usage(
                f"{where}{name} holds a value that JSON has not", "write numbers, texts, true, false"
            ) from None
    if name == "token_budget" and isinstance(value, dict):
        return ",".join(str(v) if key == "default" else f"{key}={v}" for key, v in value.items())
    if name == "datasets" and isinstance(value, list):
        return ",".join(map(str, value))
    raise _usage(f"{where}{name}: {clean(value)!r} is not allowed", f"write {name} = {_BY_NAME[name].metavar}")


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _usage(f"{where} is {clean(value)!r} and should be a table", "write [profiles.NAME] above its keys")
    return value


def _known(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            raise _usage(f"{where}: there is no setting {clean(key)!r}", _nearest(key, known))


def _nearest(word: str, known: Mapping[str, Any] | tuple[str, ...]) -> str:
    near = difflib.get_close_matches(word.replace("-", "_"), list(known), 1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(known) or 'none'}"
