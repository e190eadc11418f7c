"""The demo's data is the incident at 1/100: the counts of DOMAIN, records of today's form, rows of the same tokenizer."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from console.demo.data import BUDGET, EDITED, MAX_SAMPLES, MEAN_TOKENS, SHARES, make_data
from console.demo.engine_decode import Speaker, read_vocabulary
from remote.layout import DECLARED, PROMPTS, RESPONSES, TOKENIZED, Layout, dataset_id
from remote.model import read_model
from remote.prompts import read_prompts
from remote.records import Rules, check
from remote.retokenize import retokenize_dataset
from tests.support.tokenizers import LoadedModel, fast_model

NOW = 1_780_000_000.0


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("incident")
    make_data(base / "prepared", Path(fast_model().path), base / "work", seed=1, now=NOW)
    return base


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines() if path.exists() else []


def test_counts_and_tokens_are_the_incidents(incident: Path) -> None:
    root = incident / "prepared"
    assert sorted(path.name for path in root.iterdir()) == sorted(DECLARED)
    tokens = {}
    for folder in DECLARED:
        share, own = SHARES[dataset_id(folder)], root / folder
        records = [json.loads(line) for line in _lines(own / RESPONSES)]
        assert len(_lines(own / PROMPTS)) == len(list(read_prompts(own / PROMPTS))) == share.prompts
        assert len(records) == share.answers
        assert (own / RESPONSES).exists() == bool(share.answers)
        tokens[dataset_id(folder)] = sum(record["completion_tokens"] for record in records)
    assert tokens["B1"] >= BUDGET and tokens["B2"] == 107_000 and 0 < tokens["B3"] < BUDGET
    assert len(_lines(root / "B1_glaive" / TOKENIZED)) == 98
    assert len(_lines(root / "B2_opencodeinstruct" / TOKENIZED)) == 29
    assert not (root / "B3_magicoder" / TOKENIZED).exists()
    # What makes B1 look like a contradiction: more answers than the running process's cap.
    assert SHARES["B1"].answers > MAX_SAMPLES


def test_every_record_is_valid_and_ends_as_the_model_ends(incident: Path) -> None:
    facts = read_model(fast_model().path)
    rules = Rules(facts.vocab_size, facts.eos_ids)
    for folder in DECLARED:
        for line in _lines(incident / "prepared" / folder / RESPONSES):
            verdict = check(line, rules)
            assert (verdict.kind, verdict.finish, verdict.no_eos) == ("valid", "stop", False)


def test_prompts_come_in_every_form_and_all_render(incident: Path) -> None:
    forms, trailing, kinds = set(), 0, set()
    for folder in DECLARED:
        for prompt in read_prompts(incident / "prepared" / folder / PROMPTS):
            forms.add(prompt.form)
            kinds.add(type(prompt.sample_id))
            trailing += prompt.trailing_assistant
            assert fast_model().tokenizer.prompt_ids(prompt)
    assert forms == {"messages", "conversations", "prompt", "input_ids"}
    assert kinds == {str, int}
    assert trailing > 50


def test_rows_were_made_by_the_same_tokenizer_and_the_two_without_one_are_explained(
    incident: Path, tmp_path: Path
) -> None:
    model = fast_model()
    layout = Layout(incident / "prepared")
    options = replace(model.options, root=str(layout.root))
    b1 = retokenize_dataset(layout, "B1_glaive", options, model.tokenizer)
    b2 = retokenize_dataset(layout, "B2_opencodeinstruct", options, model.tokenizer)
    assert (b1.result, b2.result) == ("identical", "identical")
    assert b1.meta is not None
    assert {(item.sample_id, item.reason) for item in b1.meta.left_out} == {
        (f"B1-{place:06d}", "prompt-mismatch") for place in EDITED
    }


def test_file_times_tell_the_story(incident: Path) -> None:
    """B1 was finished long before; nothing is newer than the moment the operator is woken."""
    times = {path: path.stat().st_mtime for path in incident.rglob("*.jsonl") if not path.name.startswith(".")}
    assert max(times.values()) <= NOW
    root = incident / "prepared"
    assert times[root / "B3_magicoder" / RESPONSES] < times[root / "B1_glaive" / RESPONSES] < NOW - 3600


def test_the_same_seed_gives_the_same_bytes(incident: Path, tmp_path: Path) -> None:
    make_data(tmp_path / "prepared", Path(fast_model().path), tmp_path / "work", seed=1, now=NOW)
    for path in sorted((tmp_path / "prepared").rglob("*.jsonl")):
        assert path.read_bytes() == (incident / "prepared" / path.relative_to(tmp_path / "prepared")).read_bytes()


def test_the_stand_in_engine_can_bring_them_to_their_budget(incident: Path) -> None:
    """All but B6, whose prompts run out: the console has something to say beforehand. Another version of the
    tokenizers' library may train other ids, and so draw other lengths; B5 has little to spare.
    """
    speaker = Speaker(read_vocabulary(Path(fast_model().path)), 1, MEAN_TOKENS, 0.7)
    short = []
    for folder in list(DECLARED)[2:]:
        prompts = [json.loads(line) for line in _lines(incident / "work" / "prompt_ids" / f"{folder}.jsonl")]
        if sum(len(speaker.answer(prompt["input_ids"], 16_384).ids) for prompt in prompts) < BUDGET:
            short.append(dataset_id(folder))
    assert set(short) <= {"B5", "B6"}


def test_the_older_scripts_prompts_are_those_that_render_now(incident: Path) -> None:
    model: LoadedModel = fast_model()
    for folder in DECLARED:
        older = [json.loads(line) for line in _lines(incident / "work" / "prompt_ids" / f"{folder}.jsonl")]
        own = list(read_prompts(incident / "prepared" / folder / PROMPTS))
        assert [item["sample_id"] for item in older] == [prompt.sample_id for prompt in own]
        assert [item["input_ids"] for item in older[:5]] == [model.tokenizer.prompt_ids(prompt) for prompt in own[:5]]
