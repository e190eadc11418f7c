"""The trace in three lines: what a dialog that asks must say before `y` is pressed, whoever has read the whole or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from console.styled import object_of, rows
from console.trace_text import amount_words
from remote.text import clean


def gist_lines(plan: Mapping[str, Any]) -> tuple[str, ...]:
    """What is generated and how much, what is only tokenized, what is left out and why.

    `plan` is the object of `plan --json`; it may be incomplete. The datasets stand in the order of the run.
    """
    return tuple(_lines(plan))


def _lines(plan: Mapping[str, Any]) -> Iterator[str]:
    datasets = rows(plan, "datasets")
    decided = [(row, str(object_of(row, "inference").get("decision"))) for row in datasets]
    resumed, started = _ids(decided, "resume"), _ids(decided, "start")
    works = [f"{resumed} resume{'s' if ' ' not in resumed else ''}"] if resumed else []
    works += [f"{started} from scratch"] if started else []
    yield f"generate  {', '.join(works)}: {amount_words(object_of(plan, 'totals'))}" if works else "generate  nothing"
    rebuilt = [row for row in datasets if object_of(row, "tokenization").get("decision") == "rebuild"]
    if rebuilt:
        yield (
            f"tokenize  {_names(rebuilt)} at once; the others as each is done"
            if works
            else f"tokenize  {_names(rebuilt)}"
        )
    for decision in ("skip", "blocked"):
        reasons: dict[str, list[Mapping[str, Any]]] = {}
        for row, what in decided:
            if what == decision:
                reason = clean(object_of(row, "inference").get("reason") or "", 40).replace("-", " ")
                reasons.setdefault(reason, []).append(row)
        if reasons:
            yield f"{decision:<9} {'; '.join(f'{_names(group)} {reason}' for reason, group in reasons.items())}"


def _ids(decided: list[tuple[Mapping[str, Any], str]], decision: str) -> str:
    return _names([row for row, what in decided if what == decision])


def _names(datasets: list[Mapping[str, Any]]) -> str:
    return " ".join(clean(row.get("id") or "", 20) for row in datasets)
