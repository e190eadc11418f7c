"""Full-size data trees for the benches: the eight datasets at the end of the job, with lengths like the real ones.

    python -m tests.bench.trees DIR [--scale F]

A function of its arguments: the same seed gives the same bytes. Needs numpy. At scale 1 about
80 M completion tokens and 1.4 GB; `--scale` multiplies the number of records, not their length.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

VOCAB_SIZE = 163_840
EOS_ID = 163_586
BUDGET = 10_000_000
SHORTEST, LONGEST = 200, 16_384


@dataclass(frozen=True)
class Shape:
    """One dataset: prompts, mean lengths in tokens, and the spread of the answers' logarithm."""

    folder: str
    prompts: int
    mean_answer: int
    spread: float
    mean_prompt: int


SHAPES = (
    Shape("B1_glaive", 10_000, 1_000, 0.60, 180),
    Shape("B2_opencodeinstruct", 7_000, 3_675, 0.70, 220),
    Shape("B3_magicoder", 6_000, 2_200, 0.70, 400),
    Shape("B4_mixturethoughts", 4_500, 3_000, 0.75, 160),
    Shape("B5_openthoughts", 3_600, 3_600, 0.80, 900),
    Shape("B6_ultrachat", 2_600, 5_000, 0.60, 300),
    Shape("B7_sharegpt", 9_000, 1_400, 0.55, 200),
    Shape("B8_sweagent", 14_000, 900, 0.65, 700),
)
_WORDS = ("value", "function", "list", "tensor", "matrix", "prove", "write", "cache", "数据", "Modell", "été", "größe")


def make(root: Path, scale: float = 1.0, seed: int = 1, said: Any = None) -> Path:
    """Write the tree, unless it is there already; a half-made one is made again. Returns `root`."""
    done = root / f".made-{scale:g}-{seed}"
    if done.exists():
        return root
    for shape in SHAPES:
        answers, tokens = _write(root / shape.folder, shape, scale, np.random.default_rng([seed, len(shape.folder)]))
        if said is not None:
            print(f"{shape.folder:20} {answers:6,} answers {tokens:11,} tokens", file=said)
    done.touch()
    return root


def _write(folder: Path, shape: Shape, scale: float, rng: Any) -> tuple[int, int]:
    folder.mkdir(parents=True, exist_ok=True)
    tag = shape.folder.split("_", 1)[0]
    count = max(2, round(shape.prompts * scale))
    with open(folder / "prompts.jsonl", "w", encoding="utf-8") as out:
        for number in range(count):
            words = max(8, int(rng.lognormal(math.log(shape.mean_prompt * 0.75), 0.6)))
            text = " ".join(_WORDS[place] for place in rng.integers(0, len(_WORDS), words))
            out.write(f'{{"sample_id": "{tag}-{number:06d}", "messages": [{{"role": "user", "content": "{text}"}}]}}\n')
    budget, tokens, answers = BUDGET * scale, 0, 0
    centre = math.log(shape.mean_answer) - shape.spread**2 / 2
    with (
        open(folder / "raw_responses.jsonl", "w", encoding="ascii") as raw,
        open(folder / "tokenized_data.jsonl", "w", encoding="ascii") as rows,
    ):
        for number in rng.permutation(count):
            if tokens >= budget:
                break
            length = int(np.clip(rng.lognormal(centre, shape.spread), SHORTEST, LONGEST))
            prompt_length = max(8, int(rng.lognormal(math.log(shape.mean_prompt), 0.6)))
            ids = (VOCAB_SIZE * rng.random(prompt_length + length) ** 2.2).astype(np.int64)
            if length < LONGEST:
                ids[-1] = EOS_ID
            finish = "length" if length == LONGEST else "stop"
            listed = ids.tolist()
            sample_id = f"{tag}-{number:06d}"
            # The older scripts' spelling, blanks after commas: the longer one to read.
            raw.write(
                f'{{"sample_id": "{sample_id}", "output_ids": {listed[prompt_length:]}, "prompt_tokens": {prompt_length}, '
                f'"completion_tokens": {length}, "finish_reason": "{finish}"}}\n'
            )
            joined = str(listed).replace(" ", "")
            mask = "0," * prompt_length + "1," * length
            rows.write(f'{{"sample_id":"{sample_id}","input_ids":{joined},"loss_mask":[{mask[:-1]}]}}\n')
            tokens += length
            answers += 1
    return answers, tokens


def main(argv: list[str] | None = None) -> int:
    """Write a tree and say what is in it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.trees")
    parser.add_argument("root", type=Path)
    parser.add_argument("--scale", type=float, default=1.0)
    args = parser.parse_args(argv)
    make(args.root, args.scale, said=sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
