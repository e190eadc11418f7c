"""A dataset with prompts and answers that belong together, for tests of what is made from both."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from remote.layout import PROMPTS, RESPONSES, TOKENIZED, Layout
from remote.prompts import read_prompts
from remote.render import Tokenizer, prompt_digest

FORMS: tuple[dict[str, Any], ...] = (
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Name a prime — été 数据."}]},
    {
        "messages": [{"role": "user", "content": "Weather?"}],
        "tools": [{"type": "function", "function": {"name": "look"}}],
    },
    {"conversations": [{"from": "human", "value": "Prove it."}, {"from": "gpt", "value": "The source's own answer."}]},
    {"prompt": "Write a function `flatten` that takes a matrix."},
    {"input_ids": [4, 7, 40, 41, 42, 8, 5, 7]},
)
"""One prompt of every form, with tools, a system turn and a trailing assistant turn among them."""


class Answered:
    """One dataset under a root; prompts of all forms in turn, answers made of a seed."""

    def __init__(self, root: Path, tokenizer: Tokenizer, eos_id: int, folder: str = "B3_magicoder") -> None:
        self.layout = Layout(root)
        self.folder = folder
        self.path = root / folder
        self.path.mkdir(parents=True, exist_ok=True)
        self._tokenizer = tokenizer
        self._eos_id = eos_id
        self._draw = random.Random(folder)
        self._ids: dict[str, list[int]] = {}

    @property
    def tokenized(self) -> Path:
        """The rows' file."""
        return self.path / TOKENIZED

    @property
    def responses(self) -> Path:
        """The answers' file."""
        return self.path / RESPONSES

    def write_prompts(self, count: int) -> None:
        """Prompts `s0` … in turn of every form."""
        self._ids.clear()
        lines = []
        for place in range(count):
            value = dict(FORMS[place % len(FORMS)])
            if "prompt" in value:
                value["prompt"] += f" Case {place}."
            lines.append(json.dumps({"sample_id": f"s{place}", **value}, ensure_ascii=False))
        (self.path / PROMPTS).write_text("\n".join(lines) + "\n", encoding="utf-8")

    def prompt_ids(self, key: str) -> list[int]:
        """The ids of one prompt that `write_prompts` wrote."""
        if not self._ids:
            prompts = read_prompts(self.path / PROMPTS)
            self._ids = {prompt.key: self._tokenizer.prompt_ids(prompt) for prompt in prompts}
        return self._ids[key]

    def record(self, key: str, length: int | None = None, **changed: Any) -> dict[str, Any]:
        """An answer to one prompt; `changed` fields replace what is right."""
        length = length or self._draw.randrange(3, 40)
        ids = [self._draw.randrange(30, 300) for _ in range(length - 1)] + [self._eos_id]
        right = {
            "sample_id": key,
            "output_ids": ids,
            "prompt_tokens": len(self.prompt_ids(key)),
            "completion_tokens": length,
            "finish_reason": "stop",
        }
        return {**right, **changed}

    def append(self, *records: dict[str, Any] | bytes) -> None:
        """Append records, or raw bytes as they are."""
        with self.responses.open("ab") as out:
            for record in records:
                out.write(record if isinstance(record, bytes) else json.dumps(record).encode() + b"\n")

    def remember(self, key: str, digest: str | None = None) -> None:
        """Note the digest of a prompt's ids in the sidecar, as a run of ours does."""
        path = self.layout.answers_of(self.folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        line = {"sample_id": key, "run": "r1", "prompt_digest": digest or prompt_digest(self.prompt_ids(key))}
        with path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")

    def rows(self) -> list[dict[str, Any]]:
        """The rows as a trainer reads them."""
        return [json.loads(line) for line in self.tokenized.read_text(encoding="utf-8").splitlines()]
