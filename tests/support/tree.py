"""Small data trees for tests: the shape of the real thing at a thousandth of its size, standard library alone.

The trees are a function of their arguments: same arguments, same bytes. `SMALL_BUDGET` is to
a small tree what ten million tokens are to the real one: B1 and B2 have met it in state `mid`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

VOCAB_SIZE = 163_840
EOS_ID = 163_586
SMALL_BUDGET = 10_000


class Shape(NamedTuple):
    """How one dataset looks: prompts, and the mean number of tokens of its answers and prompts."""

    folder: str
    prompts: int
    mean_answer: int
    mean_prompt: int
    mid_responses: int = 0


SHAPES = (
    Shape("B1_glaive", 100, 110, 18, 100),
    Shape("B2_opencodeinstruct", 70, 375, 22, 29),
    Shape("B3_magicoder", 60, 220, 40, 2),
    Shape("B4_mixturethoughts", 45, 300, 16),
    Shape("B5_openthoughts", 36, 360, 90),
    Shape("B6_ultrachat", 26, 500, 30),
    Shape("B7_sharegpt", 90, 140, 20),
    Shape("B8_sweagent", 140, 90, 70),
)
_WORDS = [
    "write",
    "explain",
    "list",
    "value",
    "function",
    "cache",
    "token",
    "schema",
    "prove",
    "matrix",
    "数据",
    "Modell",
    "été",
    "größe",
]


def prompt(sample_id: str | int, text: str = "Say something.", **more: Any) -> dict[str, Any]:
    """A line of `prompts.jsonl`."""
    return {"sample_id": sample_id, "messages": [{"role": "user", "content": text}], **more}


def response(sample_id: str | int, tokens: int = 5, finish: Any = "stop", **more: Any) -> dict[str, Any]:
    """A valid line of `raw_responses.jsonl` with `tokens` output ids."""
    ids = [(7 * place + 11) % 1000 for place in range(tokens)]
    if finish == "stop" and ids:
        ids[-1] = EOS_ID
    record = {
        "sample_id": sample_id,
        "output_ids": ids,
        "prompt_tokens": 9,
        "completion_tokens": tokens,
        "finish_reason": finish,
    }
    return {**record, **more}


def row(answer: dict[str, Any]) -> dict[str, Any]:
    """The line of `tokenized_data.jsonl` that belongs to a response (with made-up prompt ids)."""
    ids = answer["output_ids"]
    prompt_tokens = answer["prompt_tokens"]
    return {
        "sample_id": answer["sample_id"],
        "input_ids": [3] * prompt_tokens + ids,
        "loss_mask": [0] * prompt_tokens + [1] * len(ids),
    }


def line(value: Any) -> bytes:
    """One line as we write it, with its newline."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def write_lines(path: Path, values: Iterable[Any]) -> Path:
    """Write a file of lines, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(map(line, values)))
    return path


def make_tree(root: Path, state: str = "mid", shapes: Iterable[Shape] = SHAPES, seed: int = 1) -> Path:
    """Write a tree under `root` and return `root`.

    `state`: `seed` (prompts alone, and B3's two old answers), `mid` (the day of the incident:
    B1 whole with two rows missing, B2 over its budget, B3 with two answers) or `end`
    (all eight at the budget or out of prompts, all tokenized).
    """
    for shape in shapes:
        write_dataset(root / shape.folder, shape, state, random.Random(f"{seed} {shape.folder}"))
    return root


def write_dataset(folder: Path, shape: Shape, state: str, rng: random.Random) -> None:
    """Write one dataset's files; those that its state does not have are not made."""
    tag = shape.folder.split("_", 1)[0]
    ids = [f"{tag}-{number:06d}" for number in range(shape.prompts)]
    write_lines(folder / "prompts.jsonl", (prompt(one, _text(rng, shape.mean_prompt)) for one in ids))
    answers = _answers(shape, state, ids, rng)
    if not answers:
        return
    write_lines(folder / "raw_responses.jsonl", answers)
    if state == "end" or (state == "mid" and tag in ("B1", "B2")):
        left_out = {f"{tag}-000000", f"{tag}-000001"} if tag == "B1" else set()
        rows = (row(answer) for answer in answers if answer["sample_id"] not in left_out)
        write_lines(folder / "tokenized_data.jsonl", rows)


def _answers(shape: Shape, state: str, ids: list[str], rng: random.Random) -> list[dict[str, Any]]:
    order = rng.sample(ids, len(ids))
    if state == "mid":
        order = order[: shape.mid_responses]
    elif state == "seed":
        order = order[:2] if shape.folder.startswith("B3") else []
    answers: list[dict[str, Any]] = []
    tokens = 0
    for sample_id in order:
        if state == "end" and tokens >= SMALL_BUDGET:
            break
        length = max(5, round(rng.gauss(shape.mean_answer, shape.mean_answer / 10)))
        tokens += length
        output_ids = [int(VOCAB_SIZE * rng.random() ** 2.2) for _ in range(length - 1)] + [EOS_ID]
        answers.append(response(sample_id, length, output_ids=output_ids, prompt_tokens=shape.mean_prompt))
    return answers


def _text(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(_WORDS, k=max(3, words)))
