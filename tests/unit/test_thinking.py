"""The latest answers are looked at for the end of thinking; older ones, bad ones and other models' are left alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from remote import thinking
from remote.layout import RESPONSES, Layout
from remote.options import Options
from remote.records import Rules
from remote.thinking import Thinking, count_without, end_of_thinking
from tests.support.tree import response, write_lines

END_ID = 777


def answer(number: int, thinks: bool) -> dict[str, object]:
    made = response(f"s{number}", 20)
    return {**made, "output_ids": [5, END_ID, *made["output_ids"][2:]] if thinks else made["output_ids"]}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    decoder = {str(END_ID): {"content": "</think>"}, "5": {"content": "<s>"}}
    (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": decoder}))
    return folder


def test_the_latest_answers_are_counted(tmp_path: Path) -> None:
    path = write_lines(tmp_path / RESPONSES, [answer(n, n < 100) for n in range(110)])
    assert count_without(path, END_ID, Rules()) == (thinking.SAMPLE, 10)


def test_unusable_and_unfinished_lines_are_no_answers(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / RESPONSES, [answer(1, True), {"sample_id": "x", "output_ids": "AAA"}, answer(2, False)]
    )
    with path.open("ab") as file:
        file.write(b"\n" + json.dumps(answer(3, False)).encode()[:30])
    assert count_without(path, END_ID, Rules()) == (2, 1)


def test_a_large_file_is_read_at_its_end_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thinking, "TAIL_BYTES", 1000)
    path = write_lines(tmp_path / RESPONSES, [answer(n, n < 190) for n in range(200)])
    looked_at, without = count_without(path, END_ID, Rules())
    assert 0 < looked_at <= 10 and without == looked_at


def test_each_dataset_is_looked_at_again_only_when_it_grew(tmp_path: Path, model: Path) -> None:
    root = tmp_path / "root"
    folder = root / "B4_mixturethoughts"
    folder.mkdir(parents=True)
    (root / "B5_openthoughts").mkdir()
    path = write_lines(folder / RESPONSES, [answer(1, True)])
    options = Options(root=str(root), model_path=str(model))
    looks = Thinking(Layout(root), options, Rules())
    assert looks.look() == {folder.name: (1, 0)}
    write_lines(path, [answer(1, True), answer(2, False)])
    assert looks.look() == {folder.name: (2, 1)}


@pytest.mark.parametrize("kwargs", [{"thinking": False}, {"enable_thinking": False}])
def test_thinking_that_was_switched_off_is_not_missed(tmp_path: Path, model: Path, kwargs: dict[str, bool]) -> None:
    folder = tmp_path / "B4_mixturethoughts"
    folder.mkdir()
    write_lines(folder / RESPONSES, [answer(1, False)])
    options = Options(root=str(tmp_path), model_path=str(model), template_kwargs=kwargs)
    assert Thinking(Layout(tmp_path), options, Rules()).look() == {}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer_config.json", {"added_tokens_decoder": {"9": {"content": "</think>"}}}),
        ("added_tokens.json", {"</think>": 9}),
        ("tokenizer.json", {"added_tokens": [{"id": 9, "content": "</think>"}]}),
    ],
)
def test_the_token_is_found_wherever_a_model_keeps_it(tmp_path: Path, name: str, content: object) -> None:
    (tmp_path / name).write_text(json.dumps(content))
    assert end_of_thinking(str(tmp_path)) == 9


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"added_tokens_decoder": 5}', '{"added_tokens_decoder": {"x": {"content": "</think>"}}}']
)
def test_a_model_without_it_or_with_broken_files_has_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer_config.json").write_text(content)
    assert end_of_thinking(str(tmp_path)) is None
    assert end_of_thinking(None) is None and end_of_thinking(str(tmp_path / "none")) is None
