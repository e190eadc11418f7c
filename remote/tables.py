"""What the scan remembers of a file's lines: enough to judge them again without reading again.

A sample's id is kept once per dataset and numbered; the tables hold numbers in plain
arrays, a few bytes a line. The arrays only ever grow: a scan result that was handed out
keeps its own length into them and stays true while they grow on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable
from typing import Any

from remote.jsonlines import BOM, is_blank, is_complete_object
from remote.problems import EXAMPLE_CHARS, Problem, ProblemLog
from remote.prompts import check_prompt
from remote.records import OUR_FINISHES, REPAIRS, UNUSABLE, Judge
from remote.rows import check_row
from remote.text import clean

MAX_FINISHES = 24
OTHER_FINISH = "(other)"
NO_EOS = 0x80
CODES = ("", *REPAIRS)
_CODE_NUMBER = {code: number for number, code in enumerate(CODES)}


class IdTable:
    """Sample ids of one dataset, numbered in the order in which they were met."""

    def __init__(self) -> None:
        self.fill([])

    def fill(self, names: list[str]) -> None:
        """Take over a list of ids, numbered by their places."""
        self.names = names
        self.numbers = {name: number for number, name in enumerate(names)}

    def number(self, name: str) -> int:
        """The id's number; a new id gets the next one."""
        known = self.numbers.get(name)
        if known is None:
            known = self.numbers[name] = len(self.names)
            self.names.append(name)
        return known


class NumberSet:
    """Which of the numbered ids are in it: a byte for each number up to the largest."""

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self._marks = bytearray()
        for number in numbers:
            self.add(number)

    def __contains__(self, number: int) -> bool:
        return number < len(self._marks) and self._marks[number] == 1

    def add(self, number: int) -> None:
        """Put a number in."""
        if number >= len(self._marks):
            self._marks.extend(bytes(number + 1 - len(self._marks)))
        self._marks[number] = 1


class LineTable(ABC):
    """What all three tables share: counting lines, and taking a last line back that was not finished."""

    columns: tuple[tuple[str, str], ...] = ()
    """Name and type code of each array."""

    def __init__(self, ids: IdTable) -> None:
        self.ids = ids
        self.epoch = 0
        """Changes whenever something that was said before is taken back."""
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.epoch += 1
        self.line_no = 0
        self.lines = 0
        self.problems = ProblemLog()
        self.torn: Problem | None = None
        self._undo: dict[str, Any] | None = None
        for name, code in self.columns:
            setattr(self, name, array(code))

    def take(self, offset: int, line: bytes) -> None:
        """One complete line."""
        if self._undo is not None or self.torn is not None:
            self._take_tail_back()
        self.line_no += 1
        if is_blank(line):
            return
        self.lines += 1
        self._judge(offset, line)

    def set_tail(self, offset: int, tail: bytes) -> None:
        """The bytes after the last newline: a whole record counts, anything else is torn."""
        self._take_tail_back()
        if is_blank(tail):
            return
        if is_complete_object(tail):
            undo = self._state()
            undo["columns"] = {name: len(getattr(self, name)) for name, _ in self.columns}
            self.take(offset, tail)
            self._undo = undo
        else:
            self.torn = Problem("torn", 1, "", self.line_no + 1, offset, clean(tail, EXAMPLE_CHARS))

    def _take_tail_back(self) -> None:
        self.torn = None
        undo, self._undo = self._undo, None
        if undo is None:
            return
        self.epoch += 1
        for name, length in undo.pop("columns").items():
            setattr(self, name, getattr(self, name)[:length])
        for name, value in undo.items():
            setattr(self, name, value)
        self.remark()

    def remark(self) -> None:  # noqa: B027 - a table that derives nothing has nothing to do
        """Derive anew what follows from the arrays alone: they were cut back or restored."""

    def _state(self) -> dict[str, Any]:
        return {"line_no": self.line_no, "lines": self.lines, "problems": self.problems.copy()}

    @abstractmethod
    def _judge(self, offset: int, line: bytes) -> None: ...

    # ---- the index: plain values, and the arrays apart from them

    @property
    def tail_columns(self) -> dict[str, int] | None:
        """How long the arrays are without the last record, if that has no newline yet."""
        return None if self._undo is None else self._undo["columns"]

    def to_json(self) -> dict[str, Any]:
        """The state up to the last complete line."""
        state = dict(self._undo) if self._undo is not None else self._state()
        state.pop("columns", None)
        state["problems"] = state["problems"].to_json()
        return state

    def restore(self, value: dict[str, Any]) -> None:
        """Take over what `to_json` gave. Raises ValueError, KeyError or TypeError when it is not that."""
        self.line_no = int(value["line_no"])
        self.lines = int(value["lines"])
        self.problems = ProblemLog.from_json(value["problems"])


class PromptTable(LineTable):
    """`prompts.jsonl`: `order` numbers the usable, unique prompts in file order."""

    columns = (("order", "I"),)
    order: array[int]

    def clear(self) -> None:
        super().clear()
        self.remark()
        self.usable = 0
        self.trailing_assistant = 0
        self.forms: dict[str, int] = {}

    def has(self, number: int) -> bool:
        """Whether this id is a prompt's."""
        return number in self._prompts

    def _judge(self, offset: int, line: bytes) -> None:
        verdict = check_prompt(line)
        if not verdict.usable or verdict.key is None or verdict.form is None:
            self.problems.add(verdict.code, self.line_no, offset, line.removeprefix(BOM))
            return
        known = len(self.ids.names)
        number = self.ids.number(verdict.key)
        if self.has(number):
            self.problems.add("repeated-prompt", self.line_no, offset, verdict.key)
            return
        if number < known:
            # An id that records spoke of before its prompt came: they are judged again.
            self.epoch += 1
        self._prompts.add(number)
        self.order.append(number)
        self.usable += 1
        self.trailing_assistant += verdict.trailing_assistant
        self.forms[verdict.form] = self.forms.get(verdict.form, 0) + 1

    def _state(self) -> dict[str, Any]:
        return {
            **super()._state(),
            "usable": self.usable,
            "trailing_assistant": self.trailing_assistant,
            "forms": dict(self.forms),
        }

    def remark(self) -> None:
        self._prompts = NumberSet(self.order)

    def restore(self, value: dict[str, Any]) -> None:
        super().restore(value)
        self.usable = int(value["usable"])
        self.trailing_assistant = int(value["trailing_assistant"])
        self.forms = {str(form): int(count) for form, count in value["forms"].items()}


class ResponseTable(LineTable):
    """`raw_responses.jsonl`: a place in each array for every record that is not unusable."""

    columns = (("number", "I"), ("tokens", "I"), ("finish", "B"), ("code", "B"), ("line", "I"), ("offset", "Q"))
    number: array[int]
    tokens: array[int]
    finish: array[int]
    code: array[int]
    line: array[int]
    offset: array[int]

    def __init__(self, ids: IdTable, judge: Judge) -> None:
        self.judge = judge
        super().__init__(ids)

    def clear(self) -> None:
        super().clear()
        self.unusable = 0
        self.finishes: list[str] = []

    def _judge(self, offset: int, line: bytes) -> None:
        verdict, _ = self.judge(line)
        if verdict.kind == UNUSABLE or verdict.sample_id is None or verdict.finish is None:
            self.unusable += 1
            self.problems.add(verdict.code, self.line_no, offset, line.removeprefix(BOM))
            return
        self.number.append(self.ids.number(verdict.sample_id))
        self.tokens.append(verdict.tokens)
        self.finish.append(self._finish(verdict.finish))
        self.code.append(_CODE_NUMBER[verdict.code] | (NO_EOS if verdict.no_eos else 0))
        self.line.append(self.line_no)
        self.offset.append(offset)

    def _finish(self, finish: str) -> int:
        word = finish if finish in OUR_FINISHES else clean(finish, 40)
        if word in self.finishes:
            return self.finishes.index(word)
        if len(self.finishes) >= MAX_FINISHES:
            return MAX_FINISHES
        self.finishes.append(word)
        return len(self.finishes) - 1

    def finish_word(self, number: int) -> str:
        """The finish reason that `finish` stands for."""
        return self.finishes[number] if number < len(self.finishes) else OTHER_FINISH

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "unusable": self.unusable, "finishes": list(self.finishes)}

    def restore(self, value: dict[str, Any]) -> None:
        super().restore(value)
        self.unusable = int(value["unusable"])
        self.finishes = [str(word) for word in value["finishes"]]


class RowTable(LineTable):
    """`tokenized_data.jsonl`: `number` of each good row, in file order."""

    columns = (("number", "I"),)
    number: array[int]

    def clear(self) -> None:
        super().clear()
        self.good = 0
        self.remark()

    def _judge(self, offset: int, line: bytes) -> None:
        code, sample_id = check_row(line)
        if code or sample_id is None:
            self.problems.add(code, self.line_no, offset, line.removeprefix(BOM))
            return
        number = self.ids.number(sample_id)
        if number in self._seen:
            self.problems.add("repeated-row", self.line_no, offset, sample_id)
        else:
            self._seen.add(number)
        self.number.append(number)
        self.good += 1

    def remark(self) -> None:
        self._seen = NumberSet(self.number)

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "good": self.good}

    def restore(self, value: dict[str, Any]) -> None:
        super().restore(value)
        self.good = int(value["good"])
