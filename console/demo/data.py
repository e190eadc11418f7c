"""The data of the incident at 1/100 of its size: what lay under the root when the operator was woken.

B1 has run to completion before the cap was added; two of its answers have no row, because their prompts were edited
after they had been answered. B2 is past its budget, tokenized when it had 29 answers. B3 holds two answers of a killed
run. B4 to B8 have prompts alone, in the forms that their sources have. One seed gives the same bytes.
"""

from __future__ import annotations

import json
import math
import os
import random
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from console.demo.texts import answer, prompt
from console.demo.tokenizer import END_OF_TURN_ID
from remote.layout import DECLARED, PROMPTS, RESPONSES, TOKENIZED, dataset_id
from remote.options import Options
from remote.prompts import parse_prompt
from remote.render import Tokenizer, load_tokenizer
from remote.training_rows import row_line

BUDGET = 100_000
MAX_SAMPLES = 70
"""The older script's cap: 7,000 at full size."""

MEAN_TOKENS = 3_200
"""Mean answer length for the stand-in engine: with it all reach the budget but B6, which runs out of prompts."""

EDITED = (41, 77)
"""Places in B1 of the prompts that were edited after they had been answered."""

PROMPT_IDS = "prompt_ids"
"""The older script's folder of prompts that it tokenized beforehand, beside the script."""

_HOUR_S = 3600.0


@dataclass(frozen=True)
class Share:
    """One dataset's state: its prompts, and the answers it has, with their sum of completion tokens."""

    prompts: int
    answers: int = 0
    tokens: int = 0
    tokenized: bool = False
    answered_hours_ago: float = 0.0


SHARES = {
    "B1": Share(100, 100, 104_500, True, 27.0),
    "B2": Share(70, 29, 107_000, True, 0.2),
    "B3": Share(60, 2, 4_400, False, 50.0),
    "B4": Share(45),
    "B5": Share(36),
    "B6": Share(26),
    "B7": Share(90),
    "B8": Share(140),
}


def make_data(root: Path, model_path: Path, older_folder: Path, seed: int = 1, now: float | None = None) -> None:
    """Write the eight datasets under `root`, and the older script's tokenized prompts under `older_folder`.

    `model_path` is the folder that `make_model` wrote; `now` (seconds since 1970) is the moment of the incident, from
    which file times are counted back. Takes a few seconds: transformers is loaded. Raises OperatorError and OSError.
    """
    tokenizer = load_tokenizer(Options(model_path=str(model_path)))
    now = time.time() if now is None else now
    for folder in DECLARED:
        _Dataset(folder, root / folder, tokenizer, seed).write(older_folder / PROMPT_IDS, now)


class _Dataset:
    def __init__(self, folder: str, path: Path, tokenizer: Tokenizer, seed: int) -> None:
        self._id = dataset_id(folder)
        self._folder = folder
        self._path = path
        self._tokenizer = tokenizer
        self._share = SHARES[self._id]
        # The last word was chosen so that with seed 1 B6 runs out of prompts and the others do not.
        self._draw = random.Random(f"{seed}:{self._id}:c")

    def write(self, older_prompts: Path, now: float) -> None:
        """Write this dataset's files, with their times."""
        share = self._share
        prompts = [self._prompt(place) for place in range(share.prompts)]
        ids = [self._prompt_ids(value) for value in prompts]
        _write_lines(self._path / PROMPTS, map(_dump, prompts), now - 80 * _HOUR_S)
        _write_lines(
            older_prompts / f"{self._folder}.jsonl",
            (
                _dump({"sample_id": value["sample_id"], "input_ids": own})
                for value, own in zip(prompts, ids, strict=True)
            ),
            now - 79 * _HOUR_S,
        )
        if not share.answers:
            return
        order = _nearly_in_order(share.answers, self._draw)
        lengths = _lengths(share.answers, share.tokens, self._draw)
        records, rows = [], []
        for place, length in zip(order, lengths, strict=True):
            outputs = self._outputs(length)
            edited = self._id == "B1" and place in EDITED
            sample_id = prompts[place]["sample_id"]
            records.append(
                _dump(
                    {
                        "sample_id": sample_id,
                        "output_ids": outputs,
                        "prompt_tokens": len(ids[place]) + (self._draw.randrange(4, 12) if edited else 0),
                        "completion_tokens": length,
                        "finish_reason": "stop",
                    }
                )
            )
            if not edited:
                rows.append(row_line(sample_id, ids[place], ",".join(map(str, outputs)).encode(), length))
        answered_at = now - share.answered_hours_ago * _HOUR_S
        _write_lines(self._path / RESPONSES, records, answered_at)
        if share.tokenized:
            _write_lines(self._path / TOKENIZED, rows, answered_at + 60)

    def _prompt(self, place: int) -> dict[str, Any]:
        # ShareGPT's own ids are numbers: both kinds are to be met.
        sample_id: str | int = place + 1 if self._id == "B7" else f"{self._id}-{place:06d}"
        value = {"sample_id": sample_id, **prompt(self._id, self._draw)}
        if self._id == "B8" and place % 10 == 9:
            # Part of SWE-agent's trajectories come tokenized.
            value = {"sample_id": sample_id, "input_ids": self._prompt_ids(value)}
        return value

    def _prompt_ids(self, value: dict[str, Any]) -> list[int]:
        return self._tokenizer.prompt_ids(parse_prompt(_dump(value)))

    def _outputs(self, length: int) -> list[int]:
        ids: list[int] = []
        for piece in answer(self._id, self._draw):
            ids += self._tokenizer.encode(piece)
            if len(ids) >= length - 1:
                break
        return [*ids[: length - 1], END_OF_TURN_ID]


def _lengths(count: int, total: int, draw: random.Random) -> list[int]:
    """Lognormal lengths that sum to `total`, none below a tenth of their mean."""
    mean = total / count
    raw = [max(mean / 10, draw.lognormvariate(math.log(mean) - 0.2, 0.6)) for _ in range(count)]
    scale = total / sum(raw)
    lengths = [max(2, int(value * scale)) for value in raw]
    lengths[lengths.index(max(lengths))] += total - sum(lengths)
    return lengths


def _nearly_in_order(count: int, draw: random.Random) -> list[int]:
    """The order in which answers finish: asked for in file order, the short ones first."""
    return sorted(range(count), key=lambda place: place + draw.uniform(0, 12))


def _dump(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


def _write_lines(path: Path, lines: Iterable[bytes] | Iterator[bytes], at: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines))
    os.utime(path, (at, at))
