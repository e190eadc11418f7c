"""Prompts to token ids through the model's own chat template: applied once, special tokens never added twice.

transformers is imported by `load_tokenizer`, never before; it works offline, and runs the code in a model's folder only
when `--trust-remote-code` says so.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import re
import sys
import tempfile
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from remote.errors import OperatorError
from remote.exitcodes import ExitCode
from remote.fingerprint import Fingerprint, cheap_fingerprint, installed_versions
from remote.options import Options
from remote.text import clean

DIGEST_HEX = 32
"""Length of a prompt digest: 128 bits of SHA-256, in hex."""

_OURS = frozenset(
    [
        "conversation",
        "tools",
        "tokenize",
        "add_generation_prompt",
        "continue_final_message",
        "return_dict",
        "return_tensors",
        "return_assistant_tokens_mask",
        "padding",
        "truncation",
        "max_length",
        "tokenizer_kwargs",
    ]
)


class Unrenderable(Exception):
    """One prompt that the chat template refuses, or that renders to nothing; its text says why, cleaned."""


class Renderable(Protocol):
    """What of a prompt is rendered: `messages` with `tools`, or `input_ids` as they are."""

    @property
    def messages(self) -> Any: ...
    @property
    def tools(self) -> Any: ...
    @property
    def input_ids(self) -> Any: ...


def prompt_digest(ids: Sequence[int]) -> str:
    """A short name of prompt ids: SHA-256 over them as little-endian 32-bit numbers, the first 32 hex digits."""
    packed = array("I", ids)
    if sys.byteorder == "big":
        packed.byteswap()
    return hashlib.sha256(packed.tobytes()).hexdigest()[:DIGEST_HEX]


class Tokenizer:
    """A loaded tokenizer, fast or slow. Made by `load_tokenizer`."""

    def __init__(self, inner: Any, fingerprint: Fingerprint, kwargs: Mapping[str, Any]) -> None:
        self._inner = inner
        self._kwargs = dict(kwargs)
        self.fingerprint = fingerprint

    @property
    def has_template(self) -> bool:
        """Whether there is a chat template; without one only `input_ids` prompts can be used."""
        return bool(getattr(self._inner, "chat_template", None))

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids of special tokens, as far as the tokenizer says."""
        ids = {int(number) for number in getattr(self._inner, "all_special_ids", ())}
        decoder = getattr(self._inner, "added_tokens_decoder", None)
        if isinstance(decoder, Mapping):
            ids.update(int(number) for number, token in decoder.items() if getattr(token, "special", False))
        return frozenset(ids)

    @property
    def eos_id(self) -> int | None:
        """The tokenizer's own end-of-sequence id."""
        number = getattr(self._inner, "eos_token_id", None)
        return number if isinstance(number, int) else None

    def prompt_ids(self, prompt: Renderable) -> list[int]:
        """The ids of a prompt, up to where the answer begins.

        Raises Unrenderable for a prompt that cannot be rendered, OperatorError (`no-chat-template`, `no-library`)
        where none can.
        """
        if prompt.input_ids is not None:
            return list(prompt.input_ids)
        if not self.has_template:
            raise OperatorError(
                "no-chat-template",
                "the model's tokenizer has no chat template",
                "put the model's chat_template.jinja into its folder",
            )
        try:
            rendered = self._inner.apply_chat_template(
                prompt.messages,
                tools=prompt.tools or None,
                tokenize=True,
                add_generation_prompt=True,
                return_dict=False,
                **self._kwargs,
            )
            ids = _plain_ids(rendered)
        except ImportError as error:
            raise _missing_library(error) from None
        except MemoryError:
            raise
        except Exception as error:
            # A chat template is a program of the model's: it may raise anything, and it concerns this prompt alone.
            raise Unrenderable(clean(f"{type(error).__name__}: {error}", 160)) from None
        if not ids:
            raise Unrenderable("it renders to no token at all")
        return ids

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without adding special tokens. For made-up data; answers are never encoded again."""
        return _plain_ids(self._inner.encode(text, add_special_tokens=False))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens included; an id the tokenizer does not know reads `<id N>`."""
        try:
            return str(self._inner.decode(list(ids), skip_special_tokens=False))
        except MemoryError:
            raise
        except Exception:
            # Kimi's reserved ids have no entry in its tiktoken table: one of them must not hide the others' text.
            return f"<id {ids[0]}>" if len(ids) == 1 else "".join(self.decode([number]) for number in ids)


class LazyTokenizer:
    """A tokenizer that loads when it is needed: what is up to date pays nothing for transformers."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._loaded: Tokenizer | None = None
        self._cheap: Fingerprint | None = None

    @property
    def fingerprint(self) -> Fingerprint:
        """Of the files and the installed versions until it is loaded. Raises OperatorError as `load_tokenizer`."""
        if self._loaded is not None:
            return self._loaded.fingerprint
        if self._cheap is None:
            self._cheap = replace(_files_of(self._options), versions=installed_versions())
        return self._cheap

    def load(self) -> Tokenizer:
        """The tokenizer itself; the first call may raise what `load_tokenizer` raises."""
        if self._loaded is None:
            self._loaded = load_tokenizer(self._options)
        return self._loaded


def load_tokenizer(options: Options) -> Tokenizer:
    """The tokenizer of `--model-path`, with the `--template-kwargs`. Takes seconds: it imports transformers.

    Raises OperatorError: `no-model-path`, `no-model`, `no-tokenizer`, `no-library` (with the command that installs it
    for this Python), `needs-trust-remote-code`, `bad-tokenizer`, or usage for kwargs that are not the template's.
    """
    kwargs = dict(options.template_kwargs or {})
    for name in sorted(_OURS & kwargs.keys()):
        raise OperatorError("usage", f"--template-kwargs may not set {name}", "leave it out", ExitCode.USAGE)
    files = _files_of(options)
    folder = Path(options.model_path or "")
    if not any(name.startswith(("tokeniz", "tiktoken", "vocab", "spiece", "tekken")) for name in files.files):
        raise OperatorError(
            "no-tokenizer",
            f"{clean(folder)} holds no tokenizer",
            "give the folder of the whole model: tokenizer_config.json and what it names",
        )
    if _names_own_code(folder) and not options.trust_remote_code:
        raise OperatorError(
            "needs-trust-remote-code",
            f"the tokenizer in {clean(folder)} is Python code of its own",
            "read it, then allow it with --trust-remote-code",
        )
    with contextlib.redirect_stdout(sys.stderr):
        inner = _load(folder, options.trust_remote_code)
    return Tokenizer(inner, replace(files, versions=_versions()), kwargs)


def _files_of(options: Options) -> Fingerprint:
    files = cheap_fingerprint(options)
    if files is None:
        raise OperatorError(
            "no-model-path",
            "no --model-path is given, so there is no tokenizer",
            "give the folder that the engine was started with (its --model-path)",
        )
    return files


def _load(folder: Path, trust_remote_code: bool) -> Any:
    _set_offline(trust_remote_code)
    try:
        transformers = importlib.import_module("transformers")
        importlib.import_module("jinja2")
        transformers.logging.set_verbosity_error()
        return transformers.AutoTokenizer.from_pretrained(
            str(folder), trust_remote_code=trust_remote_code, local_files_only=True
        )
    except ImportError as error:
        raise _missing_library(error) from None
    except MemoryError:
        raise
    except Exception as error:
        # from_pretrained passes on whatever the model's files and code raise.
        raise OperatorError(
            "bad-tokenizer",
            f"the tokenizer in {clean(folder)} does not load ({type(error).__name__}: {clean(error, 300)})",
            f"check it on the container with {clean(sys.executable)} and transformers' AutoTokenizer",
        ) from None


def _set_offline(trust_remote_code: bool) -> None:
    """Keep transformers off the network and silent, and give remote code a place where it can be written."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TRANSFORMERS_OFFLINE"] = "1"
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if not trust_remote_code or "HF_MODULES_CACHE" in os.environ:
        return
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    try:
        (home / "modules").mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home / "modules"):
            pass
    except OSError:
        # transformers copies the model's code there before it imports it; a read-only home must not stop the run.
        os.environ["HF_MODULES_CACHE"] = str(Path(tempfile.gettempdir()) / f"eagle3-modules-{os.getuid()}")


def _names_own_code(folder: Path) -> bool:
    try:
        config = json.loads((folder / "tokenizer_config.json").read_bytes())
    except (OSError, ValueError):
        return False
    auto_map = config.get("auto_map") if isinstance(config, dict) else None
    return isinstance(auto_map, dict) and bool(auto_map.get("AutoTokenizer"))


def _missing_library(error: ImportError) -> OperatorError:
    """Name the library and the command that installs it for the Python that lacks it."""
    named = re.search(r"pip install ([\w.\- ]+)", str(error))
    if error.name and not named:
        libraries = error.name.partition(".")[0]
    else:
        # Third-party text goes into a command to copy, so only plain package names are let through.
        libraries = " ".join(re.findall(r"[A-Za-z][\w.\-]*", named[1])) if named else "transformers jinja2"
    if libraries == "transformers":
        libraries = "transformers jinja2"
    return OperatorError(
        "no-library",
        f"{clean(sys.executable)} lacks {libraries.partition(' ')[0]}, which the tokenizer needs",
        f"{clean(sys.executable)} -m pip install {libraries}",
    )


def _versions() -> dict[str, str]:
    """Versions of those libraries that are imported now: the others had no part in it."""
    return {name: version for name, version in installed_versions().items() if name in sys.modules}


def _plain_ids(rendered: Any) -> list[int]:
    """A list of ints from whatever shape a tokenizer's version or its remote code returns."""
    if isinstance(rendered, Mapping) or hasattr(rendered, "input_ids"):
        rendered = rendered["input_ids"]
    if hasattr(rendered, "tolist"):
        rendered = rendered.tolist()
    if hasattr(rendered, "ids"):
        rendered = rendered.ids
    if len(rendered) == 1 and isinstance(rendered[0], (list, tuple)):
        rendered = rendered[0]
    # array refuses everything that is not a whole number from 0 on, which is what ids are.
    return array("I", rendered).tolist()
