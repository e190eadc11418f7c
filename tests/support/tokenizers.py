"""Model folders for tests: a tiny fast tokenizer, and a slow one shaped like Kimi's. Both are made here, without downloads."""

from __future__ import annotations

import atexit
import base64
import functools
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from console.demo.texts import corpus
from console.demo.tokenizer import CHAT_TEMPLATE, make_model
from remote.options import Options
from remote.render import Tokenizer, load_tokenizer

SPECIAL = (
    "[BOS]", "[EOS]", "<|im_end|>", "<|im_user|>", "<|im_assistant|>", "<|im_system|>", "<|im_tool|>", "<|im_middle|>",
    "[UNK]", "[PAD]", "<think>", "</think>",
)  # fmt: skip
RESERVED = 4
"""Ids at the end of the vocabulary that the engine may say and that no table names, as Kimi has them."""

CODE = Path(__file__).with_name("kimi_tokenizer_code.py")


@dataclass(frozen=True)
class LoadedModel:
    """A model folder in use: the options that name it, and its tokenizer."""

    options: Options
    tokenizer: Tokenizer

    @property
    def path(self) -> str:
        """The folder."""
        return str(self.options.model_path)


@functools.cache
def fast_model() -> LoadedModel:
    """The fast model, made and loaded once for all tests of a process. Not to be changed."""
    options = make_fast_model(_scratch() / "fast")
    return LoadedModel(options, load_tokenizer(options))


@functools.cache
def kimi_model() -> LoadedModel:
    """The Kimi-shaped model, made and loaded once for all tests of a process. Not to be changed."""
    options = make_kimi_model(_scratch() / "kimi")
    return LoadedModel(options, load_tokenizer(options))


@functools.cache
def _scratch() -> Path:
    folder = tempfile.mkdtemp(prefix="eagle3-models-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def make_fast_model(folder: Path) -> Options:
    """A folder with a fast tokenizer (the demo's), and the options that use it."""
    make_model(folder)
    return Options(model_path=str(folder))


def make_kimi_model(folder: Path) -> Options:
    """A folder whose tokenizer is Python code of its own over a tiktoken table, and the options that use it.

    Its vocabulary is larger than what the table and the special tokens name, and its two ends of sequence are split
    over config.json and generation_config.json.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(CODE, folder / "tokenization_tinykimi.py")
    tokens = _ranks()
    table = "".join(f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens))
    (folder / "tiktoken.model").write_text(table, encoding="ascii")
    first = len(tokens)
    _write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "TinyKimiTokenizer",
            "auto_map": {"AutoTokenizer": ["tokenization_tinykimi.TinyKimiTokenizer", None]},
            "special_texts": SPECIAL,
            "unnamed_ids": RESERVED,
            "bos_token": "[BOS]",
            "eos_token": "[EOS]",
            "unk_token": "[UNK]",
            "pad_token": "[PAD]",
            "additional_special_tokens": [text for text in SPECIAL if text.startswith("<|")],
            "chat_template": CHAT_TEMPLATE,
            "model_max_length": 8192,
        },
    )
    _write(
        folder / "config.json",
        {
            "model_type": "kimi_k25",
            "eos_token_id": first + SPECIAL.index("[EOS]"),
            "text_config": {"vocab_size": first + len(SPECIAL) + RESERVED, "max_position_embeddings": 8192},
        },
    )
    _write(folder / "generation_config.json", {"eos_token_id": first + SPECIAL.index("<|im_end|>"), "temperature": 0.6})
    return Options(model_path=str(folder), trust_remote_code=True)


def _ranks() -> list[bytes]:
    """A merge table: all bytes, then every beginning of some words, so that each word can be merged up."""
    tokens = [bytes([number]) for number in range(256)]
    known = set(tokens)
    words = sorted({word for text in list(corpus())[:200] for word in text.split() if word.isalpha()})
    for word in words[:300]:
        data = word.encode()
        for end in range(2, len(data) + 1):
            if data[:end] not in known:
                known.add(data[:end])
                tokens.append(data[:end])
    return tokens


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
