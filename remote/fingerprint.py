"""The fingerprint of what turns a prompt into ids: tokenizer files, chat template, its arguments, library versions.

Two runs with the same fingerprint give the same prompt ids. The files are digested as they lie in the model's folder,
so the agent compares fingerprints without importing transformers; library versions are known only to a process that
has imported them, stand apart, and are compared where both sides know them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from remote.errors import OperatorError
from remote.model import check_folder
from remote.options import Options
from remote.text import clean

LIBRARIES = ("transformers", "tokenizers", "jinja2", "tiktoken", "sentencepiece")
"""Libraries whose version can change the ids; those that a tokenizer does not use are left out."""

_NAMES = frozenset(
    [
        "added_tokens.json",
        "chat_template.jinja",
        "chat_template.json",
        "merges.txt",
        "sentencepiece.bpe.model",
        "special_tokens_map.json",
        "spiece.model",
        "tekken.json",
        "tiktoken.model",
        "tokenizer.json",
        "tokenizer.model",
        "tokenizer_config.json",
        "vocab.json",
        "vocab.txt",
    ]
)
_SUFFIXES = (".py", ".tiktoken", ".jinja")
_CONFIG_KEYS = ("auto_map", "model_type", "tokenizer_class")
_DIGEST_HEX = 16


@dataclass(frozen=True)
class Fingerprint:
    """What the prompt ids depend on.

    `files`: file name to digest (the first 16 hex digits of SHA-256); `kwargs`: `--template-kwargs`;
    `versions`: library to version, empty where no library was imported.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """One short name of files and arguments; versions stand apart. 16 hex digits of SHA-256."""
        return _digest(_canonical({"files": dict(self.files), "kwargs": dict(self.kwargs)}))

    def differences(self, other: Fingerprint) -> tuple[str, ...]:
        """What differs, `other` being the later one: `file tokenizer.json`, `template kwargs`, `transformers 4.57 -> 5.2`.

        Empty means the same ids. Libraries that only one of the two knows are not compared.
        """
        found = [
            f"file {clean(name, 80)}"
            for name in sorted({*self.files, *other.files})
            if self.files.get(name) != other.files.get(name)
        ]
        if _canonical(dict(self.kwargs)) != _canonical(dict(other.kwargs)):
            found.append("template kwargs")
        return (*found, *self.version_differences(other))

    def version_differences(self, other: Fingerprint) -> tuple[str, ...]:
        """The libraries whose version both know and that differ."""
        return tuple(
            f"{name} {clean(version, 40)} -> {clean(other.versions[name], 40)}"
            for name, version in sorted(self.versions.items())
            if name in other.versions and other.versions[name] != version
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` is the inverse."""
        return {
            "digest": self.digest,
            "files": dict(self.files),
            "kwargs": dict(self.kwargs),
            "versions": dict(self.versions),
        }

    @classmethod
    def from_json(cls, value: object) -> Fingerprint | None:
        """Rebuild what `to_json` wrote; None for anything else."""
        if not isinstance(value, dict):
            return None
        files, kwargs, versions = (value.get(key) for key in ("files", "kwargs", "versions"))
        if not (isinstance(files, dict) and isinstance(kwargs, dict) and isinstance(versions, dict)):
            return None
        return cls(_strings(files), kwargs, _strings(versions))


def cheap_fingerprint(options: Options) -> Fingerprint | None:
    """The fingerprint as the files alone tell it, without versions; None where no `--model-path` is given.

    A file is read again only when its size, times or inode changed. Raises OperatorError (`no-model`).
    """
    if not options.model_path:
        return None
    folder = Path(options.model_path)
    check_folder(folder)
    files: dict[str, str] = {}
    try:
        for path in sorted(_tokenizer_files(folder)):
            files[path.relative_to(folder).as_posix()] = _file_digest(path)
        config = _config_digest(folder / "config.json")
    except OSError as error:
        raise OperatorError(
            "no-model",
            f"{clean(error.filename or folder)} cannot be read ({error.strerror or error})",
            "make the model's folder readable on the container",
        ) from None
    if config is not None:
        files["config.json"] = config
    return Fingerprint(files, dict(options.template_kwargs or {}))


def installed_versions() -> dict[str, str]:
    """The libraries' versions as installed for this Python, without importing them."""
    import importlib.metadata  # not at the top: it takes as long as all else the agent needs at its start

    found: dict[str, str] = {}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _tokenizer_files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name in _NAMES or path.name.endswith(_SUFFIXES):
            yield path
        elif path.name == "additional_chat_templates" and path.is_dir():
            yield from path.glob("*.jinja")


def _file_digest(path: Path) -> str:
    facts = path.stat()
    return _digest_of(os.fspath(path), facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino)


@lru_cache(maxsize=512)
def _digest_of(path: str, size: int, mtime_ns: int, ctime_ns: int, inode: int) -> str:
    """The digest of one file; all but `path` only make the memory's key."""
    running = hashlib.sha256()
    with open(path, "rb") as source:
        while block := source.read(1 << 20):
            running.update(block)
    return running.hexdigest()[:_DIGEST_HEX]


def _config_digest(path: Path) -> str | None:
    """A digest of those keys of config.json that choose the tokenizer's class: the rest of it changes nothing here."""
    try:
        value = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    return _digest(_canonical({key: value[key] for key in _CONFIG_KEYS if key in value}))


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGEST_HEX]


def _strings(value: dict[Any, Any]) -> dict[str, str]:
    return {str(key): str(item) for key, item in value.items()}
