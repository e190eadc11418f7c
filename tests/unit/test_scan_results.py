"""What a scan says of a data tree: counts, classes, problems with their places, ids, growth."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from remote.dataset_memory import QUIET_S
from remote.dataset_scan import DatasetScan
from remote.errors import OperatorError
from remote.layout import DECLARED, PROMPTS, RESPONSES, TOKENIZED
from remote.options import Budget
from remote.records import Rules
from remote.scan import Scanner, scan_root
from tests.support.tree import EOS_ID, line, make_tree, prompt, response, row, write_lines

RULES = Rules(eos_ids=frozenset({EOS_ID}))
B3 = "B3_magicoder"


def _b3(root: Path, rules: Rules = RULES) -> DatasetScan:
    return scan_root(root, rules).dataset(B3)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_lines(tmp_path / B3 / PROMPTS, [prompt("a"), prompt("b"), prompt(3), prompt("d")])
    return tmp_path


def _independent(folder: Path) -> tuple[int, int, set[str]]:
    """Answers, tokens and ids, counted the simple way."""
    lines = [json.loads(text) for text in (folder / RESPONSES).read_text().splitlines()]
    return len(lines), sum(len(one["output_ids"]) for one in lines), {one["sample_id"] for one in lines}


@pytest.mark.parametrize("state", ["seed", "mid", "end"])
def test_figures_of_a_whole_tree(tmp_path: Path, state: str) -> None:
    scan = scan_root(make_tree(tmp_path, state), RULES)
    assert [dataset.folder for dataset in scan.datasets] == list(DECLARED)
    for dataset in scan.datasets:
        folder = tmp_path / dataset.folder
        assert dataset.prompts == len((folder / PROMPTS).read_bytes().splitlines())
        answers, tokens, ids = _independent(folder) if (folder / RESPONSES).exists() else (0, 0, set())
        assert (dataset.responses, dataset.answered, dataset.tokens) == (answers, answers, tokens)
        assert dataset.answered_ids() == ids and sum(dataset.answer_lengths()) == tokens
        assert dataset.classes.valid == sum(dataset.lengths) == answers and dataset.problems == ()
        rows = (folder / TOKENIZED).read_bytes().splitlines() if (folder / TOKENIZED).exists() else []
        assert dataset.tokenized == len(rows)
        assert set(dataset.untokenized_ids()) == ids - {json.loads(text)["sample_id"] for text in rows}


def test_every_class_with_its_place(root: Path) -> None:
    lines = [
        line(response("a", 5)),
        b"\n",
        line(response("b", 4, finish={"type": "length", "length": 4})),
        line(response("zz", 6)),
        line(response("a", 9)),
        line(response("3", 2, output_ids="AAEC")),
        line(response("d", 3, finish="length")),
        line(response("d", 3)),
        b"{half a li\n",
        line(response(3, 7, output_ids=[1] * 7)),
        b'{"sample_id":"b"',
    ]
    (root / B3 / RESPONSES).write_bytes(b"".join(lines))
    found = _b3(root)
    assert found.classes.to_json() == {
        "valid": 3, "repairable": 1, "unusable": 2, "duplicates": 2, "orphans": 1, "torn": 1,
    }  # fmt: skip
    assert (found.responses, found.answered, found.tokens) == (9, 4, 5 + 4 + 3 + 7)
    assert found.finish_reasons == {"stop": 2, "length": 2} and found.no_eos == 1
    assert found.answered_ids() == {"a", "b", "3", "d"} and found.prompts_left == 0
    starts = [sum(map(len, lines[:place])) for place in range(len(lines))]
    places = {problem.code: (problem.count, problem.line, problem.offset) for problem in found.problems}
    assert places == {
        "finish-object": (1, 3, starts[2]),
        "orphan": (1, 4, starts[3]),
        "duplicate": (2, 5, starts[4]),
        "output-ids-not-a-list": (1, 6, starts[5]),
        "bad-json": (1, 9, starts[8]),
        "no-eos": (1, 10, starts[9]),
        "torn": (1, 11, starts[10]),
    }
    examples = {problem.code: problem.example for problem in found.problems}
    assert examples["orphan"] == "zz" and examples["bad-json"] == "{half a li"
    assert all(problem.meaning and problem.file == RESPONSES for problem in found.problems)


def test_a_whole_last_record_counts_without_its_newline(root: Path) -> None:
    path = root / B3 / RESPONSES
    path.write_bytes(line(response("a", 5)) + line(response("b", 4))[:-1])
    scanner = Scanner(root, RULES)
    found = scanner.poll().dataset(B3)
    assert (found.responses, found.tokens, found.classes.torn) == (2, 9, 0)
    with open(path, "ab") as file:
        file.write(b" junk\n")
    found = scanner.poll().dataset(B3)
    assert (found.responses, found.tokens, found.classes.unusable) == (2, 5, 1)


def test_orphans_are_judged_again_when_the_prompts_change(root: Path) -> None:
    write_lines(root / B3 / RESPONSES, [response("a", 5), response("late", 4), response("late", 3)])
    scanner = Scanner(root, RULES)
    assert scanner.poll().dataset(B3).classes.orphans == 2
    read = scanner.bytes_read
    with open(root / B3 / PROMPTS, "ab") as file:
        file.write(line(prompt("late")))
    found = scanner.poll().dataset(B3)
    assert (found.classes.orphans, found.classes.duplicates, found.tokens) == (0, 1, 9)
    assert scanner.bytes_read - read <= len(line(prompt("late"))) + 8192, "the answers are not read again for it"
    (root / B3 / PROMPTS).unlink()
    found = scanner.poll().dataset(B3)
    assert found.classes.orphans is None and found.prompts is None and found.prompts_left is None
    assert found.tokens == 9, "without prompts nobody can call an answer an orphan"


def test_prompts_bad_repeated_and_trailing(root: Path) -> None:
    path = root / B3 / PROMPTS
    with_answer = prompt("e")
    with_answer["messages"].append({"role": "assistant", "content": "mine"})
    path.write_bytes(path.read_bytes() + line(prompt("a")) + b"{}\n" + line(with_answer) + b'{"sample_id":"f"')
    found = _b3(root)
    assert (found.prompts, found.trailing_assistant) == (5, 1)
    assert found.prompt_keys() == ["a", "b", "3", "d", "e"]
    told = {problem.code: (problem.file, problem.count, problem.line) for problem in found.problems}
    assert told == {
        "repeated-prompt": (PROMPTS, 1, 5),
        "no-sample-id": (PROMPTS, 1, 6),
        "torn": (PROMPTS, 1, 8),
    }


def test_training_rows_are_checked_too(root: Path) -> None:
    answers = [response("a", 5), response("b", 4), response(3, 3)]
    write_lines(root / B3 / RESPONSES, answers)
    bad = row(answers[2])
    bad["loss_mask"] = [0] * len(bad["loss_mask"])
    write_lines(root / B3 / TOKENIZED, [row(answers[0]), bad, row(answers[0])])
    found = _b3(root)
    assert found.tokenized == 3 and found.tokenized_ids() == {"a"} and found.untokenized_ids() == ["b", "3"]
    assert {problem.code for problem in found.problems} == {"mask-all-zero", "repeated-row"}


def test_a_wrong_vocabulary_makes_all_unusable(root: Path) -> None:
    """F12: the figures that the plan blocks on."""
    write_lines(root / B3 / RESPONSES, [response("a", 5), response("b", 4)])
    found = _b3(root, Rules(vocab_size=32_000))
    assert found.classes.unusable == 2 and found.answered == 0
    assert found.problems[0].code == "outside-vocabulary"


def test_kinds_and_other_folders(tmp_path: Path) -> None:
    write_lines(tmp_path / "A1_math" / TOKENIZED, [row(response("x", 3))])
    write_lines(tmp_path / "A2_both" / TOKENIZED, [row(response("x", 3))])
    write_lines(tmp_path / "A2_both" / RESPONSES, [response("x", 3)])
    write_lines(tmp_path / "B1_glaive" / TOKENIZED, [row(response("x", 3))])
    for unseen in ("empty", ".eagle3", "logs"):
        (tmp_path / unseen).mkdir()
    (tmp_path / "logs" / "run.log").write_text("x")
    (tmp_path / "notes.txt").write_text("x")
    scan = scan_root(tmp_path, RULES)
    assert [dataset.folder for dataset in scan.datasets] == [*DECLARED, "A1_math", "A2_both"]
    kinds = {dataset.folder: dataset.kind for dataset in scan.datasets}
    assert kinds["A1_math"] == "pretokenized"
    assert kinds["A2_both"] == "prompts" and kinds["B1_glaive"] == "prompts"
    missing = scan.dataset("B2_opencodeinstruct")
    assert not missing.exists and missing.responses is None and missing.tokens is None and missing.prompts is None


def test_no_root_is_an_error_and_an_empty_one_is_not(tmp_path: Path) -> None:
    for wrong in (tmp_path / "none", tmp_path / "file"):
        (tmp_path / "file").write_text("x")
        with pytest.raises(OperatorError) as caught:
            scan_root(wrong, RULES)
        assert caught.value.code == "no-root" and caught.value.remedy
    empty = tmp_path / "empty"
    empty.mkdir()
    assert [dataset.exists for dataset in scan_root(empty, RULES).datasets] == [False] * 8


def test_a_link_that_leads_to_itself_blanks_nothing_else(root: Path) -> None:
    """Of a declared dataset it is unreadable, which is not the same as missing."""
    (root / "stray_loop").symlink_to("stray_loop")
    (root / "B4_mixturethoughts").symlink_to("B4_mixturethoughts")
    (root / "gone").symlink_to("nowhere")
    scan = Scanner(root, RULES).poll()
    assert scan.dataset(B3).prompts == 4
    damaged = scan.dataset("B4_mixturethoughts")
    assert damaged.exists and not damaged.readable and damaged.prompts is None
    assert "gone" not in {dataset.folder for dataset in scan.datasets}


@pytest.mark.parametrize("obstacle", ["folder", "loop", "fifo"])
def test_one_file_that_cannot_be_read_blanks_nothing_else(root: Path, obstacle: str) -> None:
    path = root / B3 / RESPONSES
    write_lines(root / "B1_glaive" / PROMPTS, [prompt("x")])
    if obstacle == "folder":
        path.mkdir()
    elif obstacle == "loop":
        path.symlink_to(path)
    else:
        os.mkfifo(path)
    scanner = Scanner(root, RULES)
    scan = scanner.poll()
    found = scan.dataset(B3)
    assert not found.readable and found.responses is None and found.tokens is None
    assert found.prompts == 4, "its other files are still told"
    (problem,) = found.problems
    assert problem.code == "unreadable" and problem.file == RESPONSES and problem.example
    assert scan.dataset("B1_glaive").readable and scan.dataset("B1_glaive").prompts == 1
    assert scanner.poll().dataset(B3).version == found.version, "nothing new about it"
    path.rmdir() if obstacle == "folder" else path.unlink()
    write_lines(path, [response("a", 5)])
    assert scanner.poll().dataset(B3).tokens == 5


def test_the_version_tells_what_changed(root: Path) -> None:
    scanner = Scanner(root, RULES)
    first = scanner.poll()
    again = scanner.poll()
    assert all(one is other for one, other in zip(first.datasets, again.datasets, strict=True))
    write_lines(root / B3 / RESPONSES, [response("a", 5)])
    third = scanner.poll()
    changed = [
        one.folder for one, other in zip(first.datasets, third.datasets, strict=True) if one.version != other.version
    ]
    assert changed == [B3]


def test_growth_is_seen_and_forgotten(root: Path) -> None:
    now = [1000.0]
    scanner = Scanner(root, RULES, clock=lambda: now[0])
    path = write_lines(root / B3 / RESPONSES, [response("a", 5)])
    assert scanner.poll().dataset(B3).growing_since is None, "seen for the first time is not growing"
    for since in (1001.0, 1002.0):
        now[0] = since
        with open(path, "ab") as file:
            file.write(line(response("b", 5)))
        assert scanner.poll().dataset(B3).growing_since == 1001.0
    now[0] += QUIET_S
    assert scanner.poll().dataset(B3).growing_since == 1001.0
    now[0] += 1
    found = scanner.poll().dataset(B3)
    assert found.growing_since is None and found.file(RESPONSES).growing_since is None


def test_a_file_that_appears_under_our_eyes_is_growing(root: Path) -> None:
    scanner = Scanner(root, RULES, clock=lambda: 50.0)
    scanner.poll()
    write_lines(root / B3 / RESPONSES, [response("a", 5)])
    assert scanner.poll().dataset(B3).growing_since == 50.0


def test_json_of_a_dataset(root: Path) -> None:
    (root / B3 / RESPONSES).write_bytes(line(response("a", 5)) + b"{half")
    found = _b3(root)
    value = found.to_json("partial", 10)
    assert {key: value[key] for key in ("id", "name", "title", "kind", "state", "prompts", "responses")} == {
        "id": "B3", "name": B3, "title": "Magicoder", "kind": "prompts", "state": "partial", "prompts": 4, "responses": 1,
    }  # fmt: skip
    assert (value["tokenized"], value["tokens"], value["budget"]) == (0, 5, 10)
    assert value["schema"]["torn"] == 1 and value["schema"]["problems"][0]["code"] == "torn"
    writing = found.to_json("running", 10)["schema"]
    assert writing["torn"] == 0 and writing["problems"] == [], "merely unfinished while somebody writes"
    scan = scan_root(root, RULES)
    whole = scan.to_json({dataset.folder: "waiting" for dataset in scan.datasets}, Budget(5, {"B3": 7}))
    assert [dataset["budget"] for dataset in whole["datasets"]] == [5, 5, 7, 5, 5, 5, 5, 5]


def test_hostile_text_is_cleaned(root: Path) -> None:
    hostile = "\x1b[31m[/red]\u202e" + "x" * 500
    (root / B3 / RESPONSES).write_bytes(
        line(response(hostile, 5)) + line(response("a", 5, finish=hostile)) + hostile.encode() + b"\n"
    )
    found = _b3(root)
    texts = [problem.example for problem in found.problems] + list(found.finish_reasons)
    assert len(texts) >= 3
    assert all(len(text) <= 120 and "\x1b" not in text and "\u202e" not in text for text in texts)


def test_many_different_finish_reasons_stay_few(root: Path) -> None:
    write_lines(root / B3 / PROMPTS, (prompt(number) for number in range(60)))
    write_lines(root / B3 / RESPONSES, (response(number, 3, finish=f"reason {number}") for number in range(60)))
    found = _b3(root)
    assert len(found.finish_reasons) <= 25 and sum(found.finish_reasons.values()) == 60
