"""Into which class does each record fall: orphan, duplicate, repairable, valid.

Judged from the tables alone, so that a changed prompts file costs no second reading of the
answers; and only from where the last judging stopped, as long as nothing was taken back.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

from remote.problems import ProblemLog
from remote.tables import CODES, NO_EOS, PromptTable, ResponseTable

LENGTH_EDGES = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
"""Upper edges of the histogram's buckets in tokens, each exclusive; the last bucket has none."""


@dataclass(frozen=True)
class Classes:
    """How many records are in each class; `orphans` is None where there are no prompts to tell by."""

    valid: int = 0
    repairable: int = 0
    unusable: int = 0
    duplicates: int = 0
    orphans: int | None = None
    torn: int = 0

    def to_json(self) -> dict[str, int | None]:
        """By name, as in `scan --json`."""
        return {
            "valid": self.valid,
            "repairable": self.repairable,
            "unusable": self.unusable,
            "duplicates": self.duplicates,
            "orphans": self.orphans,
            "torn": self.torn,
        }


class Tally:
    """The running result over a dataset's records. `used` holds the places of those that count."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Start over."""
        self.upto = 0
        self.used = array("I")
        self.valid = self.repairable = self.duplicates = self.orphans = 0
        self.tokens = self.no_eos = 0
        self.finishes: dict[str, int] = {}
        self.lengths = [0] * (len(LENGTH_EDGES) + 1)
        self.problems = ProblemLog()
        self._seen = bytearray()

    def bring_up(self, responses: ResponseTable, prompts: PromptTable | None) -> None:
        """Judge the records that came since the last call. `prompts` is None where there is no such file."""
        names = responses.ids.names
        self._seen.extend(bytes(len(names) - len(self._seen)))
        for place in range(self.upto, len(responses.number)):
            number = responses.number[place]
            if prompts is not None and not prompts.has(number):
                self.orphans += 1
                code = "orphan"
            elif self._seen[number]:
                self.duplicates += 1
                code = "duplicate"
            else:
                self._seen[number] = 1
                code = self._use(place, responses)
            if code:
                self.problems.add(code, responses.line[place], responses.offset[place], names[number])
        self.upto = len(responses.number)

    def _use(self, place: int, responses: ResponseTable) -> str:
        self.used.append(place)
        tokens, flags = responses.tokens[place], responses.code[place]
        self.tokens += tokens
        self.lengths[bisect_right(LENGTH_EDGES, tokens)] += 1
        word = responses.finish_word(responses.finish[place])
        self.finishes[word] = self.finishes.get(word, 0) + 1
        if flags & NO_EOS:
            self.no_eos += 1
            self.problems.add(
                "no-eos", responses.line[place], responses.offset[place], responses.ids.names[responses.number[place]]
            )
        code = CODES[flags & ~NO_EOS]
        if code:
            self.repairable += 1
        else:
            self.valid += 1
        return code

    # ---- the index

    _COUNTS = ("upto", "valid", "repairable", "duplicates", "orphans", "tokens", "no_eos")

    def to_json(self) -> dict[str, Any]:
        """All but the array."""
        return {
            **{name: getattr(self, name) for name in self._COUNTS},
            "finishes": self.finishes,
            "lengths": self.lengths,
            "problems": self.problems.to_json(),
        }

    def restore(self, value: dict[str, Any]) -> None:
        """Take over what `to_json` gave. Raises ValueError, KeyError or TypeError when it is not that."""
        for name in self._COUNTS:
            setattr(self, name, int(value[name]))
        self.finishes = {str(word): int(count) for word, count in value["finishes"].items()}
        self.lengths = [int(count) for count in value["lengths"]]
        self.problems = ProblemLog.from_json(value["problems"])
        if len(self.lengths) != len(LENGTH_EDGES) + 1:
            raise ValueError("other length buckets")

    def resee(self, responses: ResponseTable) -> None:
        """Derive from the restored arrays which ids were met."""
        self._seen = bytearray(len(responses.ids.names))
        for place in self.used:
            self._seen[responses.number[place]] = 1
