"""What the model's own folder says, read as plain JSON: vocabulary, ends of sequence, context, sampling.

No transformers here: the agent reads this with Python alone. Which file wins is SGLang's own rule (its end-of-sequence
set is the union of config.json, generation_config.json and the tokenizer's token).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from remote.errors import OperatorError
from remote.nearby import nearby
from remote.options import Options
from remote.text import clean

KIMI_VOCAB_SIZE = 163_840
"""Kimi-K2.5's vocabulary: what is assumed while no model folder says otherwise."""

SAMPLING_KEYS = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
)
"""Keys of generation_config.json that the engine takes under the same name (ENGINE's `sampling_params`)."""

FALLBACK_SAMPLING: Mapping[str, Any] = {"temperature": 1.0, "top_p": 0.95}


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters for the engine, and where they come from (`--sampling`, `generation_config.json`, `default`)."""

    values: Mapping[str, Any]
    source: str


@dataclass(frozen=True)
class ModelFacts:
    """What records, plan and engine client need to know of a model.

    `eos_ids` may be empty (then a missing end of sequence is not judged); `context_length`, in tokens, is None where the
    folder does not say; `sampling` holds generation_config.json's values, empty where there are none.
    """

    path: str | None = None
    name: str | None = None
    vocab_size: int = KIMI_VOCAB_SIZE
    vocab_source: str = "default"
    eos_ids: frozenset[int] = frozenset()
    context_length: int | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)


def read_model(model_path: str | None) -> ModelFacts:
    """The facts of a model folder; the defaults when there is none to read (`model_path` is None).

    Raises OperatorError (`no-model`, `bad-model`) when the folder or its config.json cannot be used.
    """
    if not model_path:
        return ModelFacts()
    folder = Path(model_path)
    check_folder(folder)
    config = _object(folder / "config.json")
    if config is None:
        raise OperatorError(
            "no-model",
            f"--model-path {clean(model_path)} holds no config.json",
            "give the folder that the engine was started with (its --model-path)",
        )
    text = config.get("text_config")
    configs = [config, text] if isinstance(text, dict) else [config]
    generation = _object(folder / "generation_config.json") or {}
    vocab = next(((size, "config.json") for size in _sizes(configs, "vocab_size")), (KIMI_VOCAB_SIZE, "default"))
    eos_ids = {number for source in (*configs, generation) for number in _token_ids(source.get("eos_token_id"))}
    eos_ids.update(_tokenizer_eos(folder))
    return ModelFacts(
        path=str(folder),
        name=_name(folder, config),
        vocab_size=vocab[0],
        vocab_source=vocab[1],
        eos_ids=frozenset(eos_ids),
        context_length=next(_sizes(configs, "max_position_embeddings"), None),
        sampling={key: generation[key] for key in SAMPLING_KEYS if _is_number(generation.get(key))},
    )


def sampling_of(facts: ModelFacts, options: Options) -> Sampling:
    """The sampling parameters of a run: `--sampling`, else the model's own, else temperature 1.0 and top_p 0.95."""
    if options.sampling is not None:
        return Sampling(dict(options.sampling), "--sampling")
    if facts.sampling:
        return Sampling(dict(facts.sampling), "generation_config.json")
    return Sampling(dict(FALLBACK_SAMPLING), "default")


def check_folder(folder: Path) -> None:
    """Raise OperatorError (`no-model`) unless `folder` is a folder that can be listed."""
    try:
        next(folder.iterdir(), None)
    except NotADirectoryError:
        why = "is not a folder"
    except FileNotFoundError:
        there = nearby(folder)
        why = f"does not exist on {clean(os.uname().nodename, 80)}{f' ({there})' if there else ''}"
    except OSError as error:
        why = f"cannot be read ({error.strerror or error})"
    else:
        return
    raise OperatorError(
        "no-model",
        f"--model-path {clean(folder)} {why}",
        "give the folder of the served model on the container: it holds config.json and the tokenizer",
    )


def _object(path: Path) -> dict[str, Any] | None:
    """A JSON object from a file of the model; None where there is no such file. Raises OperatorError."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise OperatorError(
            "bad-model", f"{clean(path)} cannot be read as JSON ({clean(error)})", "fetch that file of the model again"
        ) from None
    if not isinstance(value, dict):
        raise OperatorError("bad-model", f"{clean(path)} is not a JSON object", "fetch that file of the model again")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _sizes(configs: list[dict[str, Any]], key: str) -> Iterator[int]:
    """The positive whole numbers under `key`, the outer configuration first."""
    for config in configs:
        value = config.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            yield value


def _token_ids(value: object) -> Iterator[int]:
    """`eos_token_id` as the files have it: a number, a list of numbers or null."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, int) and not isinstance(item, bool) and item >= 0:
            yield item


def _tokenizer_eos(folder: Path) -> Iterator[int]:
    """The id of the tokenizer's end-of-sequence token, where its files tell it without running its code."""
    config = _object(folder / "tokenizer_config.json") or {}
    token = config.get("eos_token")
    text = token.get("content") if isinstance(token, dict) else token
    if not isinstance(text, str):
        return
    decoder = config.get("added_tokens_decoder")
    for key, item in decoder.items() if isinstance(decoder, dict) else ():
        if isinstance(item, dict) and item.get("content") == text and str(key).isdigit():
            yield int(key)
            return
    path = folder / "tokenizer.json"
    try:
        facts = path.stat()
    except OSError:
        return
    yield from _added_token(str(path), text, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino)


@lru_cache(maxsize=16)
def _added_token(path: str, text: str, size: int, mtime_ns: int, ctime_ns: int, inode: int) -> tuple[int, ...]:
    """Ids of one token in tokenizer.json. That file can have tens of megabytes: it is read only where the small ones do
    not tell, and again only when it has changed; all but `path` and `text` only make the memory's key."""
    added = (_object(Path(path)) or {}).get("added_tokens")
    items = added if isinstance(added, list) else []
    return tuple(
        number
        for item in items
        if isinstance(item, dict) and item.get("content") == text
        for number in _token_ids(item.get("id"))
    )


def _name(folder: Path, config: dict[str, Any]) -> str:
    """A name to show: the folder's, or the configuration's where the folder is a cache's digest."""
    own = config.get("_name_or_path")
    name = folder.resolve().name
    looks_hashed = len(name) >= 32 and all(char in "0123456789abcdef" for char in name)
    if looks_hashed and isinstance(own, str) and own.strip("/"):
        return clean(own.rstrip("/").rsplit("/", 1)[-1], 80)
    return clean(name, 80)
