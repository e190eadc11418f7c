"""Rebuilding rows: what is in them, what is left out and why, and that good rows are never lost to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from remote.errors import OperatorError
from remote.layout import PROMPTS, TOKENIZED_META
from remote.model import read_model
from remote.options import Options
from remote.render import load_tokenizer
from remote.retokenize import Outcome, retokenize_dataset
from remote.tokenized_meta import read_meta, read_refused
from tests.support.answered import FORMS, Answered
from tests.support.tokenizers import LoadedModel, fast_model, kimi_model, make_fast_model

REPOSITORY = Path(__file__).parents[2]


def _eos(model: LoadedModel) -> int:
    return max(read_model(model.path).eos_ids)


def _retokenize(data: Answered, model: LoadedModel | None = None, **options: object) -> Outcome:
    model = model or fast_model()
    return retokenize_dataset(data.layout, data.folder, replace(model.options, **options), model.tokenizer)


@pytest.fixture
def data(tmp_path: Path) -> Answered:
    """Ten prompts of all forms, ten answers, not in their order."""
    made = Answered(tmp_path, fast_model().tokenizer, _eos(fast_model()))
    made.write_prompts(10)
    made.append(*(made.record(f"s{place}") for place in (3, 0, 1, 2, 9, 8, 4, 5, 7, 6)))
    return made


@pytest.mark.parametrize("make", [fast_model, kimi_model])
def test_a_row_is_the_prompts_ids_then_the_answers_own(make: object, tmp_path: Path) -> None:
    model = fast_model() if make is fast_model else kimi_model()
    data = Answered(tmp_path, model.tokenizer, _eos(model))
    data.write_prompts(10)
    records = [data.record(f"s{place}") for place in (3, 0, 1, 2, 9, 8, 4, 5, 7, 6)]
    data.append(*records)
    outcome = _retokenize(data, model)
    assert outcome.result == "written"
    rows = data.rows()
    assert [row["sample_id"] for row in rows] == [record["sample_id"] for record in records]
    for row, record in zip(rows, records, strict=True):
        prompt = data.prompt_ids(record["sample_id"])
        assert row["input_ids"] == prompt + record["output_ids"]
        assert row["loss_mask"] == [0] * len(prompt) + [1] * len(record["output_ids"])
        assert list(row) == ["sample_id", "input_ids", "loss_mask"]
    assert b" " not in data.tokenized.read_bytes()
    assert outcome.meta is not None
    assert outcome.meta.loss_tokens == sum(len(record["output_ids"]) for record in records)
    assert outcome.meta.row_tokens == sum(len(row["input_ids"]) for row in rows)


def test_done_again_it_reads_nothing_and_forced_it_is_identical(data: Answered) -> None:
    _retokenize(data)
    before = data.tokenized.stat()
    assert _retokenize(data).result == "up-to-date"
    forced = _retokenize(data, retokenize="always")
    assert forced.result == "identical"
    after = data.tokenized.stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)
    assert not data.layout.previous.exists()


def test_nothing_is_read_when_nothing_changed(data: Answered) -> None:
    """Python's own audit of every open shows it: only stats are taken, and transformers is not even imported."""
    _retokenize(data)
    code = (
        "import sys, json, runpy\n"
        "opened = []\n"
        "sys.addaudithook(lambda name, args: opened.append(str(args[0])) if name == 'open' else None)\n"
        "from remote.cli import main\n"
        "code = main(sys.argv[1:])\n"
        "print(json.dumps([path for path in opened if path.endswith('.jsonl')]), file=sys.stderr)\n"
        "print('transformers' in sys.modules, file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *_command(data, fast_model())[3:]],
        capture_output=True, text=True, timeout=60, check=False, cwd=REPOSITORY,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "up-to-date" in done.stdout
    assert done.stderr.splitlines()[-2:] == ["[]", "False"]


def test_appended_answers_are_added_and_the_replaced_file_is_kept(data: Answered) -> None:
    data.write_prompts(12)
    _retokenize(data)
    old = data.tokenized.read_bytes()
    data.append(data.record("s10"), data.record("s11"))
    outcome = _retokenize(data)
    assert outcome.result == "replaced"
    assert outcome.meta is not None and outcome.meta.comparison["added"] == 2
    assert outcome.meta.comparison["same"] == 10
    assert data.tokenized.read_bytes().startswith(old)
    assert outcome.previous is not None
    assert (data.layout.root / outcome.previous).read_bytes() == old
    # Two in the same second keep both.
    data.append(data.record("s3"))
    data.tokenized.write_bytes(old)
    again = _retokenize(data)
    assert again.previous not in (None, outcome.previous)
    assert (data.layout.root / outcome.previous).read_bytes() == old


def test_every_line_is_a_row_or_accounted_for(data: Answered) -> None:
    data.append(
        b"not json\n",
        data.record("s0"),
        data.record("s1") | {"sample_id": "nobody"},
        data.record("s1", output_ids="AAEC"),
        b'\n{"sample_id": "s2", "output_ids": [1, 2',
    )  # fmt: skip
    outcome = _retokenize(data)
    meta = outcome.meta
    assert meta is not None
    assert meta.passed_over_by_kind == {"unusable": 2, "duplicate": 1, "orphan": 1, "torn": 1}
    raw = data.responses.read_bytes()
    for item in meta.passed_over:
        line = raw[item.offset :].split(b"\n", 1)[0]
        assert line.startswith((b"not json", b'{"sample_id": "s0"', b'{"sample_id": "nobody"', b'{"sample_id": "s1"', b'{"sample_id": "s2"'))  # fmt: skip
    assert meta.rows == 10


def test_the_first_usable_of_two_answers_counts(data: Answered) -> None:
    data.write_prompts(11)
    first, second = data.record("s10", 5), data.record("s10", 7)
    data.append(data.record("s10", finish_reason="abort"), first, second)
    _retokenize(data)
    assert data.rows()[-1]["input_ids"][-5:] == first["output_ids"]


def test_a_whole_last_line_without_newline_counts(data: Answered) -> None:
    data.write_prompts(11)
    record = data.record("s10")
    data.append(json.dumps(record).encode())
    outcome = _retokenize(data)
    assert outcome.meta is not None and outcome.meta.rows == 11
    assert outcome.meta.passed_over == ()


def test_the_recorded_digest_decides_before_the_count(data: Answered) -> None:
    for place in range(9):
        data.remember(f"s{place}")
    data.remember("s9", "0" * 32)
    outcome = _retokenize(data)
    meta = outcome.meta
    assert meta is not None
    assert [(item.sample_id, item.reason) for item in meta.left_out] == [("s9", "prompt-mismatch")]
    assert meta.checked == {"digest": 9, "count": 0, "none": 0}


def test_without_a_digest_the_count_decides_and_without_both_it_is_kept_and_counted(data: Answered) -> None:
    data.write_prompts(13)
    wrong = data.record("s10")
    wrong["prompt_tokens"] += 1
    silent = data.record("s11")
    del silent["prompt_tokens"]
    data.remember("s12")
    data.append(wrong, silent, data.record("s12"))
    meta = _retokenize(data).meta
    assert meta is not None
    assert [(item.sample_id, item.reason) for item in meta.left_out] == [("s10", "prompt-mismatch")]
    assert meta.checked == {"digest": 1, "count": 10, "none": 1}


def test_a_sample_answered_from_two_prompts_needs_the_count_as_well(data: Answered) -> None:
    data.remember("s0", "0" * 32)
    data.remember("s0")
    data.remember("s1", "0" * 32)
    data.remember("s1", "1" * 32)
    data.write_prompts(11)
    wrong = data.record("s10")
    wrong["prompt_tokens"] += 1
    data.append(wrong)
    data.remember("s10", "0" * 32)
    data.remember("s10")
    meta = _retokenize(data).meta
    assert meta is not None
    assert [item.sample_id for item in meta.left_out] == ["s1", "s10"]


def test_finish_by_length_is_kept_or_dropped_and_said(data: Answered) -> None:
    data.write_prompts(1010)
    data.append(
        *(data.record(f"s{place}", 3) for place in range(10, 1009)), data.record("s1009", finish_reason="length")
    )
    kept = _retokenize(data)
    assert kept.meta is not None and kept.meta.rows == 1010
    dropped = _retokenize(data, on_length="drop")
    assert dropped.result == "replaced"
    assert dropped.meta is not None
    assert dropped.meta.options["on_length"] == "drop"
    assert [(item.sample_id, item.reason) for item in dropped.meta.left_out] == [("s1009", "length-finish")]


def test_too_long_and_unrenderable_are_left_out_by_name(data: Answered) -> None:
    prompts = data.path / PROMPTS
    with prompts.open("a", encoding="utf-8") as out:
        out.write(json.dumps({"sample_id": "odd", "messages": [{"role": "wizard", "content": "x"}]}) + "\n")
        out.write(json.dumps({"sample_id": "far", "input_ids": [1, 999_999]}) + "\n")
    data.append(data.record("s0") | {"sample_id": "odd"}, data.record("s0") | {"sample_id": "far", "prompt_tokens": 2})
    longest = max(len(data.prompt_ids(f"s{place}")) for place in range(10)) + 40
    meta = _retokenize(data, max_seq_len=longest - 30).meta
    assert meta is not None
    reasons = {item.sample_id: (item.reason, item.detail) for item in meta.left_out}
    assert reasons["odd"][0] == reasons["far"][0] == "unrenderable"
    assert "wizard" in reasons["odd"][1] and "999999" in reasons["far"][1]
    assert Counter(reason for reason, _ in reasons.values())["too-long"] >= 1
    assert meta.rows + len(meta.left_out) == 12
    assert meta.longest <= longest - 30
    for row in data.rows():
        assert len(row["input_ids"]) <= longest - 30


def test_survivors_are_counted_by_row_length(data: Answered) -> None:
    data.write_prompts(12)
    length = len(data.prompt_ids("s10"))
    data.append(data.record("s10", 4096 - length), data.record("s11", 9000))
    meta = _retokenize(data).meta
    assert meta is not None
    assert meta.survive == {"4096": 11, "8192": 11, "16384": 12}


def test_a_changed_template_never_empties_a_good_file(data: Answered, tmp_path: Path) -> None:
    """CASES F9: every prompt renders otherwise, so every sample is a mismatch; the file stays, and the refusal is known."""
    _retokenize(data)
    before, facts = data.tokenized.read_bytes(), data.tokenized.stat()
    meta_before = (data.path / TOKENIZED_META).read_bytes()
    options = make_fast_model(tmp_path / "other")
    template = tmp_path / "other" / "chat_template.jinja"
    template.write_text("<|im_system|>new<|im_end|>" + template.read_text(encoding="utf-8"), encoding="utf-8")
    other = LoadedModel(options, load_tokenizer(options))
    outcome = _retokenize(data, other)
    assert outcome.result == "refused"
    assert outcome.error is not None and outcome.error.code == "rebuild-would-lose"
    assert "--accept rebuild-would-lose" in outcome.error.remedy
    assert data.tokenized.read_bytes() == before
    assert data.tokenized.stat().st_mtime_ns == facts.st_mtime_ns
    assert (data.path / TOKENIZED_META).read_bytes() == meta_before
    # Of input_ids prompts the template says nothing: those two of ten would stay.
    refused = read_refused(data.layout, data.folder)
    assert refused is not None and refused.reasons == {"prompt-mismatch": 8}
    # Asked again it does not pay for the same refusal again, and says the same.
    again = _retokenize(data, other)
    assert again.result == "refused" and "8 of 10 rows" in str(again.error)
    # With the old template back there is nothing to do; accepted, the loss is taken and the old file kept.
    assert _retokenize(data).result == "up-to-date"
    taken = _retokenize(data, other, accept=("rebuild-would-lose:B3",))
    assert taken.result == "replaced" and len(data.rows()) == 2
    assert taken.previous is not None and (data.layout.root / taken.previous).read_bytes() == before
    assert read_refused(data.layout, data.folder) is None


def test_one_percent_may_go_and_no_more(data: Answered) -> None:
    data.write_prompts(200)
    data.append(*(data.record(f"s{place}", 3) for place in range(10, 200)))
    _retokenize(data)
    for place in range(3):
        data.remember(f"s{place}", "0" * 32)
    assert _retokenize(data).result == "refused"
    data.layout.answers_of(data.folder).unlink()
    for place in range(2):
        data.remember(f"s{place}", "0" * 32)
    assert _retokenize(data).result == "replaced"
    assert len(data.rows()) == 198


def test_an_older_tools_file_is_taken_over_by_comparison(data: Answered) -> None:
    """No meta file, other spacing: the same values in other bytes, said so and kept."""
    _retokenize(data)
    rows = data.rows()
    older = "".join(json.dumps(row) + "\n" for row in rows).encode()
    data.tokenized.write_bytes(older)
    (data.path / TOKENIZED_META).unlink()
    outcome = _retokenize(data)
    assert outcome.result == "replaced"
    assert outcome.meta is not None and outcome.meta.comparison["why"] == {"format": 10}
    assert outcome.previous is not None and (data.layout.root / outcome.previous).read_bytes() == older


def test_what_someone_changed_in_the_rows_is_found_and_named(data: Answered) -> None:
    data.write_prompts(300)
    data.append(*(data.record(f"s{place}", 4) for place in range(10, 300)))
    _retokenize(data)
    lines = data.tokenized.read_bytes().splitlines(keepends=True)
    rows = [json.loads(line) for line in lines]
    rows[0]["input_ids"][0] += 1
    rows[1]["input_ids"][-1] += 1
    rows[2]["loss_mask"][0] = 1
    for place in range(3):
        lines[place] = json.dumps(rows[place], separators=(",", ":")).encode() + b"\n"
    data.tokenized.write_bytes(b"".join(lines))
    outcome = _retokenize(data)
    assert outcome.result == "replaced"
    assert outcome.meta is not None
    assert outcome.meta.comparison["why"] == {"prompt": 1, "answer": 1, "mask": 1}
    assert outcome.meta.comparison["same"] == 297


def test_a_linked_rows_file_stays_a_link(data: Answered, tmp_path: Path) -> None:
    elsewhere = tmp_path / "big-disk"
    elsewhere.mkdir()
    _retokenize(data)
    os.rename(data.tokenized, elsewhere / "rows.jsonl")
    data.tokenized.symlink_to(elsewhere / "rows.jsonl")
    data.write_prompts(11)
    data.append(data.record("s10"))
    outcome = _retokenize(data)
    assert outcome.result == "replaced"
    assert data.tokenized.is_symlink() and len(data.rows()) == 11
    assert _retokenize(data).result == "up-to-date"


def test_input_that_cannot_be_used_is_one_line_and_changes_nothing(data: Answered) -> None:
    with pytest.raises(OperatorError, match="--read-only"):
        _retokenize(data, read_only=True)
    (data.path / PROMPTS).rename(data.path / "away")
    with pytest.raises(OperatorError) as caught:
        _retokenize(data)
    assert caught.value.code == "no-prompts"
    os.mkfifo(data.path / PROMPTS)
    with pytest.raises(OperatorError, match="not a regular file"):
        _retokenize(data)
    assert not data.tokenized.exists()


def _command(data: Answered, model: LoadedModel, *more: str) -> list[str]:
    root = str(data.layout.root)
    return [sys.executable, "-m", "remote", "retokenize", "--root", root, "--model-path", model.path, *more]


def _run(data: Answered, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _command(data, fast_model(), *more), capture_output=True, text=True, timeout=60, check=False, cwd=REPOSITORY
    )


def test_the_command_does_every_dataset_and_one_fault_does_not_stop_the_rest(data: Answered) -> None:
    broken = Answered(data.layout.root, fast_model().tokenizer, _eos(fast_model()), "B1_glaive")
    broken.write_prompts(1)
    broken.append(broken.record("s0"))
    (broken.path / PROMPTS).unlink()
    done = _run(data, "--json")
    outcomes = json.loads(done.stdout)
    assert list(outcomes) == ["B1_glaive", "B3_magicoder"]
    assert not outcomes["B1_glaive"]["ok"] and outcomes["B1_glaive"]["error"]["code"] == "no-prompts"
    assert outcomes["B3_magicoder"] == outcomes["B3_magicoder"] | {"ok": True, "result": "written", "rows": 10}
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "put it back" in done.stderr
    meta = read_meta(data.layout, data.folder)
    assert meta is not None and meta.fingerprint.versions["transformers"]


def test_the_command_refuses_while_another_holds_the_lock(data: Answered) -> None:
    from remote.lock import RunLock

    with RunLock.take(data.layout, "generate", by="ana@laptop") as held:
        refused = _run(data)
        assert refused.returncode == 1
        assert "ana@laptop" in refused.stderr
        assert not data.tokenized.exists()
        # The generator's child is handed the lock itself.
        os.set_inheritable(held.fd, True)
        child = subprocess.run(
            _command(data, fast_model()), env={**os.environ, "EAGLE3_LOCK_FD": str(held.fd)}, pass_fds=(held.fd,),
            capture_output=True, text=True, timeout=60, check=False, cwd=REPOSITORY,
        )  # fmt: skip
    assert child.returncode == 0, child.stderr
    assert len(data.rows()) == 10


def test_wrong_use_of_the_command_is_one_line(data: Answered, tmp_path: Path) -> None:
    for more, code, words in (
        (["--datasets", "B9"], 2, "B3_magicoder"),
        (["--root", str(tmp_path / "none")], 1, "--root"),
        (["--model-path", str(tmp_path / "none")], 1, "does not exist"),
        (["--read-only"], 1, "--read-only"),
    ):
        done = _run(data, *more)
        assert done.returncode == code, done.stderr
        assert words in done.stderr and done.stderr.count("\n") == 1
        assert "Traceback" not in done.stderr
    assert not data.tokenized.exists()


def test_all_forms_are_among_the_prompts_used_here() -> None:
    assert {"messages", "conversations", "prompt", "input_ids"} == {key for form in FORMS for key in form} - {"tools"}
    assert Options().on_length == "keep"


def test_a_wrong_model_folder_never_empties_a_good_file(data: Answered, tmp_path: Path) -> None:
    """CASES F12: with a smaller vocabulary every answer is unusable; it says so and the rows stay."""
    _retokenize(data)
    before = data.tokenized.read_bytes()
    options = make_fast_model(tmp_path / "small")
    (tmp_path / "small" / "config.json").write_text('{"vocab_size": 30}', encoding="utf-8")
    outcome = _retokenize(data, LoadedModel(options, load_tokenizer(options)), retokenize="always")
    assert outcome.result == "refused"
    assert "lose 10 rows of 10 (10 unusable)" in str(outcome.error)
    assert data.tokenized.read_bytes() == before
