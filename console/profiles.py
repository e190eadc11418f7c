"""Saves a profile without touching a byte of the rest of the settings file."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomllib

from console.target import Target
from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.layout import write_whole

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def free_name(target: Target, taken: Mapping[str, Any]) -> str:
    """A profile name for a new target: its host's first label, numbered when that is taken."""
    label = target.host if re.fullmatch(r"[0-9.]+|.*:.*", target.host) else target.host.split(".", 1)[0]
    base = re.sub(r"[^A-Za-z0-9_-]+", "-", label).strip("-") or "container"
    names = [base, *(f"{base}-{n}" for n in range(2, len(taken) + 3))]
    return next(name for name in names if name not in taken and name not in ("local", "demo"))


def save_profile(path: Path, name: str, target: Target, values: Mapping[str, Any] | None = None) -> None:
    """Append `[profiles.NAME]` with the target's address and `values` (texts, numbers, booleans, lists of texts).

    The file is replaced whole and readable by its owner alone; comments in it stay. Raises
    OperatorError when the name is taken, the file is not TOML, or it cannot be written.
    """
    if not _BARE.fullmatch(name) or name in ("local", "demo"):
        raise _fault(f"{name!r} cannot be a profile's name", "use letters, digits, - and _")
    body = {key: value for key, value in {**_address(target), **(values or {})}.items() if value is not None}
    lines = [f"[profiles.{name}]", *(f"{key} = {_toml(value)}" for key, value in body.items())]
    try:
        old = path.read_text("utf-8") if path.exists() else ""
        if name in tomllib.loads(old).get("profiles", {}):
            raise _fault(f"{path} has a profile {name} already", "choose another name, or edit the file")
        new = f"{old.rstrip()}\n\n{chr(10).join(lines)}\n".lstrip("\n")
        tomllib.loads(new)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A settings file kept elsewhere and linked here stays a link.
        write_whole(Path(os.path.realpath(path)), new.encode(), 0o600)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _fault(f"{path} is not TOML: {error}", "mend that line first") from None
    except OSError as error:
        raise _fault(f"{path} cannot be written: {error.strerror}") from None


def _fault(message: str, remedy: str = "") -> OperatorError:
    return OperatorError("settings", message, remedy, ExitCode.USAGE)


def _address(target: Target) -> dict[str, Any]:
    if target.kind != "ssh":
        return {"host": target.kind}
    if target.ssh_options or target.config_file:
        # Only a whole command can say these.
        words = ["ssh", *(f"-o {_quoted(o)}" for o in target.ssh_options)]
        words += [f"-F {_quoted(target.config_file)}"] if target.config_file else []
        host = " ".join([*words, target.host])
    else:
        host = target.host
    return {
        "host": host,
        "user": target.user,
        "port": target.port,
        "identity": list(target.identities) or None,
        "known_hosts": target.known_hosts,
        "jump": target.jump,
    }


def _quoted(word: str) -> str:
    return shlex.quote(word)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_toml(item) for item in value)}]"
    # A JSON string is a TOML basic string; only DEL is forbidden there beyond JSON's own escapes.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007F")
