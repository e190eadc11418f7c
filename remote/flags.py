"""What another script's command line says about how far it will go: the three flags that decide it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from remote.errors import OperatorError
from remote.option_values import parse_count, parse_list
from remote.options import Budget, parse_budget


@dataclass(frozen=True)
class Flags:
    """None is "not given"; `known` is False when one was given and its value makes no sense to us."""

    max_samples: int | None = None
    token_budget: Budget | None = None
    datasets: tuple[str, ...] | None = None
    known: bool = True


_READERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "--max-samples": ("max_samples", parse_count),
    "--max_samples": ("max_samples", parse_count),
    "--token-budget": ("token_budget", parse_budget),
    "--token_budget": ("token_budget", parse_budget),
    "--datasets": ("datasets", parse_list),
}


def read_flags(argv: Sequence[str]) -> Flags:
    """The flags of a command line, `--flag value` and `--flag=value`; the last one given counts.

    An empty command line (it cannot be read) is not known. Several words after `--datasets` are
    its list, as argparse's `nargs="+"` takes them.
    """
    if not argv:
        return Flags(known=False)
    values: dict[str, Any] = {}
    known = True
    for index, word in enumerate(argv):
        name, equals, value = word.partition("=")
        reader = _READERS.get(name)
        if reader is None:
            continue
        if not equals:
            value = _following(argv, index, many=reader[0] == "datasets")
        try:
            values[reader[0]] = reader[1](value)
        except OperatorError:
            known = False
    return Flags(**values, known=known)


def _following(argv: Sequence[str], index: int, many: bool) -> str:
    words: list[str] = []
    for word in argv[index + 1 :]:
        if word.startswith("-"):
            break
        words.append(word)
        if not many:
            break
    return ",".join(words)
