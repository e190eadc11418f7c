"""Rebuilding tokenized_data.jsonl, against parsing each answer and dumping each row with `json`.

    python -m tests.bench.bench_retokenize [--tokens 10000000] [--mean 3675]

CPU seconds of one process, both ways on the same files. Rendering the prompts costs both the same and is measured
apart: the target is on what differs (`rows`), the `whole` is said beside it. `unchanged` is a call that finds all as it
was, against the bare stats of the same files.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from remote.fingerprint import Fingerprint
from remote.layout import PROMPTS, RESPONSES, TOKENIZED, Layout
from remote.options import Options
from remote.prompts import Prompt, read_prompts
from remote.render import Tokenizer, load_tokenizer
from remote.retokenize import retokenize_dataset
from remote.tokenization import stamps_of
from tests.support.tokenizers import make_fast_model

FOLDER = "B2_opencodeinstruct"
ROWS_TARGET = 0.35
UNCHANGED_TARGET = 10.0
WORDS = [
    "value",
    "function",
    "list",
    "tensor",
    "matrix",
    "prove",
    "write",
    "explain",
    "compare",
    "summary",
    "cache",
    "schema",
    "token",
    "prompt",
    "answer",
]


class Remembered:
    """A tokenizer that gives ids rendered beforehand: what is left is everything but the rendering."""

    def __init__(self, fingerprint: Fingerprint, ids: dict[str, list[int]]) -> None:
        self.fingerprint = fingerprint
        self._ids = ids

    def prompt_ids(self, prompt: Prompt) -> list[int]:
        """The remembered ids."""
        return self._ids[prompt.key]


@dataclass(frozen=True)
class Scene:
    """The files of the bench and what reads them."""

    layout: Layout
    options: Options
    tokenizer: Tokenizer
    remembered: Remembered


def make(base: Path, tokens: int, mean: int, seed: int) -> Scene:
    """One dataset of `tokens` completion tokens with answers of `mean` length, as the older scripts write it."""
    options = make_fast_model(base / "model")
    tokenizer = load_tokenizer(options)
    draw = random.Random(seed)
    own = base / "root" / FOLDER
    own.mkdir(parents=True)
    count = max(1, tokens // mean)
    with (own / PROMPTS).open("w", encoding="utf-8") as out:
        for place in range(count):
            text = " ".join(draw.choices(WORDS, k=max(8, int(draw.lognormvariate(math.log(165), 0.6)))))
            out.write(
                json.dumps({"sample_id": f"B2-{place:06d}", "messages": [{"role": "user", "content": text}]}) + "\n"
            )
    ids = {prompt.key: tokenizer.prompt_ids(prompt) for prompt in read_prompts(own / PROMPTS)}
    with (own / RESPONSES).open("w", encoding="utf-8") as out:
        for key, prompt_ids in ids.items():
            length = min(16_384, max(200, int(draw.lognormvariate(math.log(mean) - 0.245, 0.7))))
            outputs = [int(163_000 * draw.random() ** 2.2) for _ in range(length)]
            out.write(
                json.dumps(
                    {
                        "sample_id": key,
                        "output_ids": outputs,
                        "prompt_tokens": len(prompt_ids),
                        "completion_tokens": length,
                        "finish_reason": "stop",
                    }
                )
                + "\n"
            )
    config = base / "model" / "config.json"
    # Ids of the real vocabulary's width: the text of a row has the real length.
    config.write_text(json.dumps({"vocab_size": 163_840, "eos_token_id": 2}), encoding="utf-8")
    return Scene(Layout(base / "root"), options, tokenizer, Remembered(tokenizer.fingerprint, ids))


def plain(scene: Scene, tokenizer: Tokenizer | Remembered) -> None:
    """The way to beat: parse, concatenate, dump."""
    own = scene.layout.folder(FOLDER)
    prompts = {prompt.key: prompt for prompt in read_prompts(own / PROMPTS)}
    with (own / RESPONSES).open("rb") as source, (own / "plain.jsonl").open("w", encoding="utf-8") as out:
        for line in source:
            record = json.loads(line)
            ids = tokenizer.prompt_ids(prompts[record["sample_id"]])
            outputs = record["output_ids"]
            row = {
                "sample_id": record["sample_id"],
                "input_ids": ids + outputs,
                "loss_mask": [0] * len(ids) + [1] * len(outputs),
            }
            out.write(json.dumps(row, separators=(",", ":")) + "\n")


def rebuild(scene: Scene, tokenizer: Tokenizer | Remembered) -> None:
    """Ours, forced."""
    outcome = retokenize_dataset(scene.layout, FOLDER, replace(scene.options, retokenize="always"), tokenizer)  # type: ignore[arg-type]
    assert outcome.result in ("written", "identical"), outcome


def cpu_s(work: Callable[[], object], times: int = 3) -> float:
    """CPU seconds of the fastest of some runs."""
    best = math.inf
    for _ in range(times):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best


def main(argv: list[str] | None = None) -> int:
    """Print the ratios with their targets; 1 when one is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bench_retokenize")
    parser.add_argument("--tokens", type=int, default=10_000_000)
    parser.add_argument("--mean", type=int, default=3_675)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="eagle3-bench-") as folder:
        scene = make(Path(folder), args.tokens, args.mean, args.seed)
        own = scene.layout.folder(FOLDER)
        rows = cpu_s(lambda: rebuild(scene, scene.remembered)), cpu_s(lambda: plain(scene, scene.remembered), 2)
        whole = cpu_s(lambda: rebuild(scene, scene.tokenizer), 1), cpu_s(lambda: plain(scene, scene.tokenizer), 1)
        assert (own / TOKENIZED).read_bytes() == (own / "plain.jsonl").read_bytes()
        size = os.stat(own / TOKENIZED).st_size
        times = 2_000

        def unchanged() -> None:
            for _ in range(times):
                retokenize_dataset(scene.layout, FOLDER, scene.options, scene.tokenizer)

        def stats() -> None:
            for _ in range(times):
                stamps_of(scene.layout, FOLDER)

        idle = cpu_s(unchanged), cpu_s(stats)
    print(
        f"retokenize {args.tokens:,} tokens, {args.tokens // args.mean:,} rows, {size / 1e6:.0f} MB written; the same bytes both ways"
    )
    print(f"  rows        {rows[0]:6.2f} s / {rows[1]:6.2f} s = {rows[0] / rows[1]:.2f} x   target <= {ROWS_TARGET}")
    print(
        f"  whole       {whole[0]:6.2f} s / {whole[1]:6.2f} s = {whole[0] / whole[1]:.2f} x   rendering the prompts included"
    )
    ratio = idle[0] / idle[1]
    print(
        f"  unchanged   {idle[0] / times * 1e6:6.0f} us / {idle[1] / times * 1e6:4.0f} us of its stats = {ratio:.1f} x   target <= {UNCHANGED_TARGET:.0f}, nothing read"
    )
    return int(rows[0] / rows[1] > ROWS_TARGET or ratio > UNCHANGED_TARGET)


if __name__ == "__main__":
    raise SystemExit(main())
