"""All schema problems of all datasets, by line and byte."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text

from console.model import Dataset
from console.present_schema import class_words, problem_lines
from console.screens.scrolled import PageScreen
from console.view import View
from remote.text import clean
from widgets.tones import DIM, LOOK, STRONG


class SchemaScreen(PageScreen):
    """Counts of every class, then every kind of problem with its first place."""

    TITLE_WORDS: ClassVar[str] = "schema problems"

    def lines(self, view: View) -> Sequence[Text]:
        snapshot = view.snapshot
        if snapshot is None:
            return [Text("nothing is known of the container yet", DIM)]
        lines = [Text("Every record of every file was checked, not a sample of them.", DIM), Text("")]
        for row in snapshot.datasets:
            lines += dataset_lines(row, self.page_width)
        for problem in (*snapshot.problems, *snapshot.misread):
            lines.append(Text(f"! {clean(problem, 300)}", LOOK))
        return lines


def dataset_lines(row: Dataset, width: int) -> list[Text]:
    """One dataset: its counts in a line, its problems below."""
    head = Text.assemble((f"{row.id:<3} {row.title:<18}", STRONG), class_words(row.schema))
    return [head, *problem_lines(row.schema, width)]
