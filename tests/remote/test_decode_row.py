"""One training row for the eyes: the border, the mask, special tokens by name, and what a trainer would stumble over."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from remote.decode_row import decode_row, row_problems
from remote.errors import OperatorError
from remote.model import read_model
from remote.retokenize import retokenize_dataset
from tests.support.answered import Answered
from tests.support.tokenizers import LoadedModel, fast_model, kimi_model

REPOSITORY = Path(__file__).parents[2]


def _tokenized(root: Path, model: LoadedModel) -> Answered:
    data = Answered(root, model.tokenizer, max(read_model(model.path).eos_ids))
    data.write_prompts(5)
    data.append(*(data.record(f"s{place}", 9) for place in range(5)))
    retokenize_dataset(data.layout, data.folder, model.options, model.tokenizer)
    return data


@pytest.mark.parametrize("kind", ["fast", "kimi"])
def test_a_row_shows_its_border_mask_and_special_tokens(kind: str, tmp_path: Path) -> None:
    model = fast_model() if kind == "fast" else kimi_model()
    data = _tokenized(tmp_path, model)
    row = decode_row(data.layout, data.folder, 1, model.options, model.tokenizer)
    prompt = data.prompt_ids("s0")
    assert (row["sample_id"], row["prompt_tokens"], row["answer_tokens"]) == ("s0", len(prompt), 9)
    assert row["border"] == len(prompt) and row["problems"] == []
    tokens = row["tokens"]
    assert [token["id"] for token in tokens] == data.rows()[0]["input_ids"]
    assert [token["mask"] for token in tokens] == data.rows()[0]["loss_mask"]
    assert tokens[0] == {"id": prompt[0], "text": "<|im_system|>", "mask": 0, "special": True}
    assert tokens[-1]["text"] == "<|im_end|>" and tokens[-1]["special"] and tokens[-1]["mask"] == 1
    assert not any(token["special"] for token in tokens if token["text"] in ("user", "system"))


def test_text_from_the_data_reaches_no_terminal_raw(tmp_path: Path) -> None:
    model = fast_model()
    data = _tokenized(tmp_path, model)
    ids = model.tokenizer.encode("\x1b[31mred\n\tend")
    line = json.dumps({"sample_id": "evil", "input_ids": ids, "loss_mask": [0] + [1] * (len(ids) - 1)})
    with data.tokenized.open("a", encoding="utf-8") as out:
        out.write(line + "\n")
    row = decode_row(data.layout, data.folder, 6, model.options, model.tokenizer)
    text = "".join(token["text"] for token in row["tokens"])
    assert "\x1b" not in text and "\n" not in text and "red" in text and "⏎" in text


@pytest.mark.parametrize(
    ("ids", "mask", "words"),
    [
        ([1, 2, 3], [0, 1, 1], ""),
        ([1, 2], [0, 0], "all zeros"),
        ([1, 2, 3], [0, 1], "3 ids and 2 mask values"),
        ([1, 2, 3], [1, 0, 1], "zeros inside"),
        ([1, 2], [0, 2], "something else"),
        ([1, 2], [0, 1.0], "something else"),
        ([1, 2], [False, True], "something else"),
    ],
)
def test_what_a_trainer_would_stumble_over_is_said(ids: list[int], mask: list[object], words: str) -> None:
    problems = row_problems(ids, mask)
    assert problems == [] if not words else words in " ".join(problems)


def test_a_row_that_is_not_there_or_is_none_is_one_line(tmp_path: Path) -> None:
    model = fast_model()
    data = _tokenized(tmp_path, model)
    with data.tokenized.open("ab") as out:
        out.write(b'{"sample_id": "x"}\n')
    for row, code in ((0, "no-row"), (7, "no-row"), (6, "bad-row")):
        with pytest.raises(OperatorError) as caught:
            decode_row(data.layout, data.folder, row, model.options, model.tokenizer)
        assert caught.value.code == code
    with pytest.raises(OperatorError, match="retokenize the dataset first"):
        decode_row(data.layout, "B4_mixturethoughts", 1, model.options, model.tokenizer)


def test_the_command_prints_the_object_alone_though_the_models_code_prints_too(tmp_path: Path) -> None:
    model = kimi_model()
    data = _tokenized(tmp_path, model)
    words = [sys.executable, "-m", "remote", "row", "--root", str(tmp_path), "--model-path", model.path]
    done = subprocess.run(
        [*words, "--trust-remote-code", "--folder", data.folder, "--row", "2", "--json"],
        capture_output=True, text=True, timeout=60, check=False, cwd=REPOSITORY,
    )  # fmt: skip
    assert json.loads(done.stdout)["sample_id"] == "s1", done.stderr
    outside = subprocess.run(
        [*words, "--folder", "../etc"], capture_output=True, text=True, timeout=60, check=False, cwd=REPOSITORY
    )
    assert outside.returncode == 2 and "no folder's name" in outside.stderr
