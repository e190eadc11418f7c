"""One dataset: its files, how its answers end, how long they are, what is wrong, and a training row decoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from rich.text import Text
from textual import work
from textual.binding import BindingType

from console import keys
from console.desk import Desk
from console.keys import Key
from console.present_detail import dataset_page, page_text, row_page
from console.screens.copying import copy_text
from console.screens.scrolled import PageScreen, error_lines
from console.view import View
from remote.errors import OperatorError
from widgets.tones import DIM, LOOK

ROW_DEADLINE_S = 120.0
"""The first row loads the tokenizer on the container, which may take a while."""


class DetailScreen(PageScreen):
    """The page of one dataset; asks the container once, and again when its files have changed."""

    KEYS: ClassVar[tuple[Key, ...]] = keys.DETAIL
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings(*keys.DETAIL)]

    def __init__(self, desk: Desk, folder: str) -> None:
        super().__init__(desk)
        self.folder = folder
        self.answer: Mapping[str, Any] | None = None
        self.error: OperatorError | None = None
        self.row = 0
        self.row_lines: Sequence[Text] = ()
        self._asked_at: float | None = None

    def on_mount(self) -> None:
        super().on_mount()
        self.load_facts()
        self.load_row()

    @work(name="dataset", group="dataset", exclusive=True, exit_on_error=False)
    async def load_facts(self) -> None:
        """Ask for files, lengths and the meta file."""
        row = self.desk.view.snapshot.dataset(self.folder) if self.desk.view.snapshot else None
        self._asked_at = row.files_changed_at if row is not None else None
        try:
            answer = await self.desk.ask("dataset", {"folder": self.folder})
            self.answer, self.error = (answer if isinstance(answer, dict) else {}), None
        except OperatorError as error:
            self.error = error
        self.refresh_view()

    @work(name="row", group="row", exclusive=True, exit_on_error=False)
    async def load_row(self) -> None:
        """Ask for one training row, decoded on the container."""
        row = self.desk.view.snapshot.dataset(self.folder) if self.desk.view.snapshot else None
        if row is None or not row.tokenized:
            self.row_lines = [Text("training row  nothing is tokenized yet", DIM)]
        else:
            self.row_lines = [Text("training row  decoding on the container …", DIM)]
            self.refresh_view()
            params = {"folder": self.folder, "row": self.row + 1, "options": self.desk.options.to_json()}
            try:
                answer = await self.desk.ask("row", params, ROW_DEADLINE_S)
                self.row_lines = row_page(answer, self.row + 1, self.page_width)
            except OperatorError as error:
                self.row_lines = [Text("training row  could not be decoded", LOOK), *error_lines(error)]
        self.refresh_view()

    def show(self, view: View) -> None:
        super().show(view)
        row = view.snapshot.dataset(self.folder) if view.snapshot is not None else None
        # A file that grows changes several times a second; its page is asked for again when it rests a little.
        settled = row is not None and (view.age_s(row.files_changed_at) or 0.0) > 2.0
        if row is not None and settled and self.answer is not None and row.files_changed_at != self._asked_at:
            self.load_facts()

    def lines(self, view: View) -> Sequence[Text]:
        row = view.snapshot.dataset(self.folder) if view.snapshot is not None else None
        if row is None:
            return [Text(f"{self.folder} is not there any more", LOOK)]
        lines = dataset_page(view, row, self.answer, self.page_width)
        if self.error is not None:
            lines += error_lines(self.error)
        return [*lines, Text(""), *self.row_lines]

    def _move(self, step: int) -> None:
        row = self.desk.view.snapshot.dataset(self.folder) if self.desk.view.snapshot else None
        if row is not None and row.tokenized:
            self.row = (self.row + step) % row.tokenized
            self.load_row()

    def action_next_row(self) -> None:
        """The next training row."""
        self._move(1)

    def action_previous_row(self) -> None:
        """The training row before."""
        self._move(-1)

    def action_copy(self) -> None:
        """This page as text."""
        copy_text(self, page_text(self.lines(self.desk.view)))
