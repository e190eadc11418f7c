"""What is read from a model's folder without transformers, and what is said of one that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from remote.errors import OperatorError
from remote.model import KIMI_VOCAB_SIZE, ModelFacts, read_model, sampling_of
from remote.options import Options


def _folder(path: Path, **files: object) -> str:
    path.mkdir(exist_ok=True)
    for name, value in files.items():
        (path / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    return str(path)


def test_kimi_keeps_its_figures_in_text_config_and_its_ends_in_two_files(tmp_path: Path) -> None:
    facts = read_model(
        _folder(
            tmp_path / "kimi",
            config={
                "eos_token_id": 163585,
                "text_config": {"vocab_size": 163840, "max_position_embeddings": 262144, "eos_token_id": [163585]},
            },
            generation_config={"eos_token_id": 163586, "temperature": 1.0, "top_p": 0.95, "do_sample": True},
        )
    )
    assert (facts.vocab_size, facts.vocab_source, facts.context_length) == (163840, "config.json", 262144)
    assert facts.eos_ids == {163585, 163586}
    assert facts.sampling == {"temperature": 1.0, "top_p": 0.95}
    assert facts.name == "kimi"


@pytest.mark.parametrize(
    ("config", "vocab", "source"),
    [
        ({"vocab_size": 32000, "text_config": {"vocab_size": 9}}, 32000, "config.json"),
        ({"text_config": {"vocab_size": 512}}, 512, "config.json"),
        ({"text_config": None}, KIMI_VOCAB_SIZE, "default"),
        ({"vocab_size": None}, KIMI_VOCAB_SIZE, "default"),
        ({"vocab_size": True}, KIMI_VOCAB_SIZE, "default"),
        ({"vocab_size": -1}, KIMI_VOCAB_SIZE, "default"),
    ],
)
def test_the_vocabulary_is_the_outer_one_then_the_texts_then_kimis(
    config: dict[str, object], vocab: int, source: str, tmp_path: Path
) -> None:
    facts = read_model(_folder(tmp_path / "m", config=config))
    assert (facts.vocab_size, facts.vocab_source) == (vocab, source)


def test_the_tokenizers_end_is_resolved_where_its_files_tell(tmp_path: Path) -> None:
    by_config = _folder(
        tmp_path / "a",
        config={},
        tokenizer_config={
            "eos_token": {"content": "<e>"},
            "added_tokens_decoder": {"7": {"content": "<e>"}, "8": {"content": "<f>"}},
        },
    )
    assert read_model(by_config).eos_ids == {7}
    by_tokenizer = _folder(
        tmp_path / "b",
        config={"eos_token_id": [1, 2]},
        tokenizer_config={"eos_token": "<e>"},
        tokenizer={"added_tokens": [{"id": 9, "content": "<e>"}]},
    )
    assert read_model(by_tokenizer).eos_ids == {1, 2, 9}


def test_no_folder_means_the_defaults_and_no_judgement_of_ends() -> None:
    assert read_model(None) == ModelFacts()
    assert read_model(None).eos_ids == frozenset()


def test_sampling_is_the_operators_then_the_models_then_stated_defaults(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "m", config={}, generation_config={"temperature": 0.6, "top_k": 20, "top_p": None})
    facts = read_model(folder)
    given = sampling_of(facts, Options(sampling={"temperature": 0.2}))
    assert (given.values, given.source) == ({"temperature": 0.2}, "--sampling")
    own = sampling_of(facts, Options())
    assert (own.values, own.source) == ({"temperature": 0.6, "top_k": 20}, "generation_config.json")
    fallback = sampling_of(ModelFacts(), Options())
    assert (fallback.values, fallback.source) == ({"temperature": 1.0, "top_p": 0.95}, "default")


def test_a_folder_that_cannot_be_used_is_one_line_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "config.json").write_text("{", encoding="utf-8")
    (tmp_path / "list").mkdir()
    (tmp_path / "list" / "config.json").write_text("[]", encoding="utf-8")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "config.json").write_text("[" * 100_000, encoding="utf-8")
    for path, code in (
        (tmp_path / "none", "no-model"),
        (tmp_path / "file", "no-model"),
        (tmp_path, "no-model"),
        (tmp_path / "bad", "bad-model"),
        (tmp_path / "list", "bad-model"),
        (tmp_path / "deep", "bad-model"),
    ):
        with pytest.raises(OperatorError) as caught:
            read_model(str(path))
        assert caught.value.code == code, path
        assert caught.value.remedy
        assert "\n" not in str(caught.value)
