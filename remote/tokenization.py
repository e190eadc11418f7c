"""Whether tokenized_data.jsonl is up to date: one pure decision that the plan shows and `retokenize` carries out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from remote import figures
from remote.fingerprint import Fingerprint
from remote.layout import PROMPTS, RESPONSES, TOKENIZED, Layout, dataset_id
from remote.options import Options
from remote.text import clean
from remote.tokenized_meta import FileStamp, Meta, stamp, unchanged

ANSWERS = "answers"
"""The name of the provenance sidecar among the stamps."""

WOULD_LOSE = "rebuild-would-lose"
"""The reason of a rebuild that was refused, and the code that `--accept` takes (alone, or as `rebuild-would-lose:B3`)."""

SKIP, REBUILD, NONE = "skip", "rebuild", "none"
ESTIMATED_TOKENS_S = 2_000_000
"""Speed of a rebuild that was never measured here: completion tokens a second."""


@dataclass(frozen=True)
class TokenizationFacts:
    """What the decision is made from.

    `usable`: answers that count (None: unknown); `rows`: rows of the present file (None: no file); `untokenized`: some
    ids of usable answers without a row, for the eyes; `tokens`: completion tokens of the usable answers.
    """

    folder: str
    usable: int | None
    rows: int | None
    stamps: Mapping[str, FileStamp | None]
    pretokenized: bool = False
    untokenized: tuple[str, ...] = ()
    tokens: int = 0
    refused: Meta | None = None
    """The last rebuild that was refused (`read_refused`)."""


@dataclass(frozen=True)
class TokenizationDecision:
    """`decision` is `skip`, `rebuild` or `none`; `seconds` is an estimate for a rebuild."""

    decision: str
    reason: str
    evidence: str
    trainable: Mapping[str, Any] | None = None
    seconds: float | None = None


def stamps_of(layout: Layout, folder: str) -> dict[str, FileStamp | None]:
    """The stamps of a dataset's files: four stats, nothing read. Raises OSError for a file that cannot be looked at."""
    own = layout.folder(folder)
    return {
        PROMPTS: stamp(own / PROMPTS),
        RESPONSES: stamp(own / RESPONSES),
        ANSWERS: stamp(layout.answers_of(folder)),
        TOKENIZED: stamp(own / TOKENIZED),
    }


def options_that_matter(options: Options) -> dict[str, Any]:
    """The options on which the rows depend, as the meta file keeps them."""
    return {"on_length": options.on_length, "max_seq_len": options.max_seq_len}


def tokenization_of(
    facts: TokenizationFacts, meta: Meta | None, fingerprint: Fingerprint | None, options: Options
) -> TokenizationDecision:
    """What retokenizing would do now. Pure.

    `fingerprint` is today's; None where no tokenizer can be looked at: then it is not compared, and the evidence says so.
    Reasons: `pretokenized`, `no-answers`, `never`, `always`, `no-file`, `no-meta`, `fingerprint-changed`,
    `options-changed`, `new-records`, `inputs-changed`, `output-changed`, `up-to-date`, `rebuild-would-lose`.
    """
    if facts.pretokenized:
        return TokenizationDecision(NONE, "pretokenized", "it came tokenized")
    if not facts.usable:
        return TokenizationDecision(NONE, "no-answers", "there is nothing to tokenize")
    trainable = meta.trainable if meta else None
    if options.retokenize == "never":
        return TokenizationDecision(SKIP, "never", "--retokenize never", trainable)
    reason, evidence = _why(facts, meta, fingerprint, options)
    if reason == "up-to-date":
        return TokenizationDecision(SKIP, reason, evidence, trainable)
    if reason != "always" and _still_refused(facts, fingerprint, options):
        return TokenizationDecision(SKIP, WOULD_LOSE, _loss(facts.refused), trainable)
    return TokenizationDecision(REBUILD, reason, evidence, trainable, _estimate(facts, meta))


def _why(
    facts: TokenizationFacts, meta: Meta | None, fingerprint: Fingerprint | None, options: Options
) -> tuple[str, str]:
    if options.retokenize == "always":
        return "always", "--retokenize always"
    if facts.stamps.get(TOKENIZED) is None and not (meta and meta.output is None):
        return "no-file", f"never tokenized: {figures.count(facts.usable)} answers have no row"
    if meta is None:
        return "no-meta", f"no record of how it was made{_untokenized(facts)}"
    changed = _changed(facts, meta, fingerprint, options)
    if changed is not None:
        return changed
    compared = "" if fingerprint is not None else "; tokenizer not compared: no --model-path"
    return "up-to-date", f"made {meta.at} from the same files, options and tokenizer{compared}"


def _changed(
    facts: TokenizationFacts, meta: Meta, fingerprint: Fingerprint | None, options: Options
) -> tuple[str, str] | None:
    """What is not as it was when `meta` was made: reason and evidence, or None."""
    if fingerprint is not None:
        changed = meta.fingerprint.differences(fingerprint)
        if changed:
            only = (
                "only library versions differ: " if changed == meta.fingerprint.version_differences(fingerprint) else ""
            )
            return "fingerprint-changed", only + ", ".join(changed)
    now = options_that_matter(options)
    differing = [
        f"{name} {clean(meta.options.get(name), 40)} -> {now[name]}"
        for name in now
        if meta.options.get(name) != now[name]
    ]
    if differing:
        return "options-changed", ", ".join(differing)
    for name in (RESPONSES, PROMPTS, ANSWERS):
        was, is_now = meta.inputs.get(name), facts.stamps.get(name)
        if unchanged(was, is_now):
            continue
        if name == RESPONSES and was and is_now and is_now.size > was.size and is_now.inode == was.inode:
            return "new-records", f"{figures.size(is_now.size - was.size)} appended since {meta.at}"
        return "inputs-changed", f"{name} changed since {meta.at}"
    if not unchanged(meta.output, facts.stamps.get(TOKENIZED)):
        return "output-changed", f"{TOKENIZED} is not the file that was there at {meta.at}"
    return None


def reason_words(reason: str) -> str:
    """A decision's reason as a person reads it: `new records`, `no meta file`."""
    return {"no-meta": "no meta file", "no-file": "no file yet"}.get(reason, reason.replace("-", " "))


def accepts_loss(options: Options, folder: str) -> bool:
    """Whether `--accept` takes the loss of rows, everywhere or for this dataset."""
    codes = (WOULD_LOSE, f"{WOULD_LOSE}:{folder}", f"{WOULD_LOSE}:{dataset_id(folder)}")
    return any(code in options.accept for code in codes)


def _still_refused(facts: TokenizationFacts, fingerprint: Fingerprint | None, options: Options) -> bool:
    """Whether a rebuild was refused and would be again: nothing has changed since, and the loss is not accepted."""
    refused = facts.refused
    if refused is None or accepts_loss(options, facts.folder):
        return False
    return _changed(facts, refused, fingerprint, options) is None


def _loss(refused: Meta | None) -> str:
    """What a refused rebuild would have lost, in words."""
    if refused is None:
        return ""
    lost = int(refused.comparison.get("removed", 0)) + int(refused.comparison.get("unreadable", 0))
    because = refused.why_fewer
    return (
        f"a rebuild would lose {lost:,} of {refused.comparison.get('present_rows', 0):,} rows"
        f"{f' ({because})' if because else ''}; check --model-path and the prompts,"
        f" or take the loss with --accept {WOULD_LOSE}"
    )


def _untokenized(facts: TokenizationFacts) -> str:
    missing = (facts.usable or 0) - (facts.rows or 0)
    if not facts.untokenized:
        return f"; {missing:,} answers without a row" if missing > 0 else ""
    more = missing - len(facts.untokenized)
    names = ", ".join(clean(name, 40) for name in facts.untokenized)
    return f"; untokenized today: {names}" + (f" and {more:,} more" if more > 0 else "")


def _estimate(facts: TokenizationFacts, meta: Meta | None) -> float:
    """Seconds a rebuild takes: at the speed of the last one where there was one."""
    speed = ESTIMATED_TOKENS_S
    if meta and meta.took_s and meta.loss_tokens > 100_000:
        speed = max(1, round(meta.loss_tokens / meta.took_s))
    return round(facts.tokens / speed, 1)
