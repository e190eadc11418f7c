"""The decision whether rows are up to date: every reason, in the order in which it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from remote.fingerprint import Fingerprint
from remote.layout import PROMPTS, RESPONSES, TOKENIZED
from remote.options import Options
from remote.tokenization import ANSWERS, TokenizationFacts, tokenization_of
from remote.tokenized_meta import FileStamp, LeftOut, Meta, PassedOver

FINGERPRINT = Fingerprint({"tokenizer.json": "a"}, {"thinking": True}, {"transformers": "5.2", "jinja2": "3.1"})
STAMPS: Mapping[str, FileStamp | None] = {
    PROMPTS: FileStamp(100, 1, 1, 1),
    RESPONSES: FileStamp(2_000_000, 2, 2, 2),
    ANSWERS: FileStamp(50, 3, 3, 3),
    TOKENIZED: FileStamp(900, 4, 4, 4),
}
META = Meta(
    at="2026-01-01T00:00:00Z",
    fingerprint=FINGERPRINT,
    options={"on_length": "keep", "max_seq_len": None},
    inputs={name: STAMPS[name] for name in (PROMPTS, RESPONSES, ANSWERS)},
    output=STAMPS[TOKENIZED],
    rows=98,
    loss_tokens=400_000,
    row_tokens=410_000,
    longest=9000,
    survive={"4096": 90},
    checked={"digest": 98},
    left_out=(LeftOut("s1", "prompt-mismatch"), LeftOut("s2", "too-long", "9")),
    passed_over=(PassedOver(7, "unusable", "bad-json"),),
    passed_over_by_kind={"unusable": 1},
    comparison={"verdict": "new"},
    took_s=0.2,
    release="abc",
)
FACTS = TokenizationFacts("B1_glaive", usable=100, rows=98, stamps=STAMPS, tokens=400_000)


def _facts(**changed: Any) -> TokenizationFacts:
    return replace(FACTS, **changed)


def _stamps(**changed: FileStamp | None) -> Mapping[str, FileStamp | None]:
    names = {"prompts": PROMPTS, "responses": RESPONSES, "answers": ANSWERS, "tokenized": TOKENIZED}
    return {**STAMPS, **{names[name]: value for name, value in changed.items()}}


@pytest.mark.parametrize(
    ("facts", "meta", "fingerprint", "options", "decision", "reason", "words"),
    [
        (FACTS, META, FINGERPRINT, Options(), "skip", "up-to-date", "2026-01-01"),
        (FACTS, META, None, Options(), "skip", "up-to-date", "not compared"),
        (_facts(pretokenized=True), None, FINGERPRINT, Options(), "none", "pretokenized", ""),
        (_facts(usable=0), None, FINGERPRINT, Options(), "none", "no-answers", ""),
        (_facts(usable=None), None, FINGERPRINT, Options(), "none", "no-answers", ""),
        (FACTS, None, FINGERPRINT, Options(retokenize="never"), "skip", "never", "--retokenize"),
        (FACTS, META, FINGERPRINT, Options(retokenize="always"), "rebuild", "always", "--retokenize"),
        (_facts(stamps=_stamps(tokenized=None), rows=None), None, FINGERPRINT, Options(), "rebuild", "no-file", "100"),
        (_facts(untokenized=("s1", "s2")), None, FINGERPRINT, Options(), "rebuild", "no-meta", "s1, s2"),
        (_facts(untokenized=("s1",)), None, FINGERPRINT, Options(), "rebuild", "no-meta", "s1 and 1 more"),
        (FACTS, META, replace(FINGERPRINT, files={"tokenizer.json": "b"}), Options(), "rebuild", "fingerprint-changed", "tokenizer.json"),
        (FACTS, META, replace(FINGERPRINT, kwargs={}), Options(), "rebuild", "fingerprint-changed", "kwargs"),
        (FACTS, META, replace(FINGERPRINT, versions={"transformers": "5.4"}), Options(), "rebuild", "fingerprint-changed", "only library versions differ: transformers 5.2 -> 5.4"),
        (FACTS, META, replace(FINGERPRINT, versions={}), Options(), "skip", "up-to-date", ""),
        (FACTS, META, FINGERPRINT, Options(on_length="drop"), "rebuild", "options-changed", "keep -> drop"),
        (FACTS, META, FINGERPRINT, Options(max_seq_len=4096), "rebuild", "options-changed", "4096"),
        (_facts(stamps=_stamps(responses=FileStamp(3_000_000, 9, 9, 2))), META, FINGERPRINT, Options(), "rebuild", "new-records", "1.00 MB"),
        (_facts(stamps=_stamps(responses=FileStamp(3_000_000, 9, 9, 77))), META, FINGERPRINT, Options(), "rebuild", "inputs-changed", RESPONSES),
        (_facts(stamps=_stamps(responses=FileStamp(2_000_000, 2, 9, 2))), META, FINGERPRINT, Options(), "rebuild", "inputs-changed", RESPONSES),
        (_facts(stamps=_stamps(prompts=FileStamp(100, 9, 9, 1))), META, FINGERPRINT, Options(), "rebuild", "inputs-changed", PROMPTS),
        (_facts(stamps=_stamps(answers=None)), META, FINGERPRINT, Options(), "rebuild", "inputs-changed", ANSWERS),
        (_facts(stamps=_stamps(tokenized=FileStamp(901, 9, 9, 4))), META, FINGERPRINT, Options(), "rebuild", "output-changed", TOKENIZED),
        (_facts(stamps=_stamps(tokenized=None)), META, FINGERPRINT, Options(), "rebuild", "no-file", "never tokenized"),
        (_facts(stamps=_stamps(tokenized=None)), replace(META, output=None), FINGERPRINT, Options(), "skip", "up-to-date", ""),
    ],
)  # fmt: skip
def test_each_reason(
    facts: TokenizationFacts,
    meta: Meta | None,
    fingerprint: Fingerprint | None,
    options: Options,
    decision: str,
    reason: str,
    words: str,
) -> None:
    made = tokenization_of(facts, meta, fingerprint, options)
    assert (made.decision, made.reason) == (decision, reason)
    assert words in made.evidence
    assert (made.seconds is not None) == (decision == "rebuild")


def test_a_refused_rebuild_is_known_until_something_changes_or_the_loss_is_accepted() -> None:
    other = replace(FINGERPRINT, files={"tokenizer.json": "b"})
    refused = replace(META, fingerprint=other, comparison={"removed": 40, "unreadable": 2, "present_rows": 98})
    facts = _facts(refused=refused)
    made = tokenization_of(facts, META, other, Options())
    assert (made.decision, made.reason) == ("skip", "rebuild-would-lose")
    assert "42 of 98 rows (1 prompt-mismatch, 1 too-long, 1 unusable)" in made.evidence and "--accept" in made.evidence
    for accept in ("rebuild-would-lose", "rebuild-would-lose:B1", "rebuild-would-lose:B1_glaive"):
        assert tokenization_of(facts, META, other, Options(accept=(accept,))).decision == "rebuild"
    assert tokenization_of(facts, META, other, Options(accept=("rebuild-would-lose:B2",))).decision == "skip"
    assert tokenization_of(facts, META, other, Options(retokenize="always")).decision == "rebuild"
    # Today's tokenizer is that of the present rows again: nothing to do, and nothing to lose.
    assert tokenization_of(facts, META, FINGERPRINT, Options()).reason == "up-to-date"
    grown = replace(facts, stamps=_stamps(responses=FileStamp(3_000_000, 9, 9, 2)))
    assert tokenization_of(grown, META, other, Options()).decision == "rebuild"


def test_the_plan_is_told_what_can_be_trained_on() -> None:
    made = tokenization_of(FACTS, META, FINGERPRINT, Options())
    assert made.trainable == {
        "rows": 98,
        "loss_tokens": 400_000,
        "survive": {"4096": 90},
        "left_out": {"prompt-mismatch": 1, "too-long": 1},
    }
    # At the speed of the last rebuild, 2 M tokens a second.
    assert tokenization_of(FACTS, META, FINGERPRINT, Options(retokenize="always")).seconds == 0.2


def test_a_meta_file_survives_its_own_file_form_and_nothing_else_does() -> None:
    assert Meta.from_json(META.to_json()) == META
    for broken in (None, [], {}, {**META.to_json(), "version": 2}, {**META.to_json(), "rows": "x"},
                   {**META.to_json(), "inputs": {"a": {"size": 1}}}, {**META.to_json(), "fingerprint": {}}):  # fmt: skip
        assert Meta.from_json(broken) is None
