"""The scanner's memory of one dataset: its three files, what they hold, and the last result."""

from __future__ import annotations

import os
import threading
from array import array
from collections.abc import Callable
from typing import Any

from remote.classes import Classes, Tally
from remote.dataset_scan import PRETOKENIZED, PROMPT_DATASET, Contents, DatasetScan, Extent, FileFacts
from remote.layout import DECLARED, PROMPTS, RESPONSES, TOKENIZED
from remote.packing import BAD_PACK
from remote.problems import Problem
from remote.records import Rules, judge_for
from remote.tables import IdTable, LineTable, PromptTable, ResponseTable, RowTable
from remote.watched import Change, WatchedFile

QUIET_S = 15.0
"""A file that has not grown for this long is no longer growing."""


class DatasetMemory:
    """Holds one dataset. `look` costs three `stat` calls while nothing changes."""

    def __init__(self, root: str, folder: str, rules: Rules) -> None:
        self.folder = folder
        self.path = os.path.join(root, folder)
        self.ids = IdTable()
        self.prompts = PromptTable(self.ids)
        self.responses = ResponseTable(self.ids, judge_for(rules))
        self.rows = RowTable(self.ids)
        self.tally = Tally()
        self.files: tuple[tuple[WatchedFile, LineTable], ...] = (
            (WatchedFile(f"{self.path}/{PROMPTS}"), self.prompts),
            (WatchedFile(f"{self.path}/{RESPONSES}"), self.responses),
            (WatchedFile(f"{self.path}/{TOKENIZED}"), self.rows),
        )
        self.exists = False
        self.version = 0
        self.scan: DatasetScan | None = None
        self.packed: Callable[[], None] | None = None
        """Set while the arrays still lie packed in the index: brings them in."""
        self.packed_state: dict[str, Any] | None = None
        """What the index holds of this dataset, as long as it is still true."""
        self.judged_on: tuple[int, int | None] | None = None
        self._lazy: Contents | None = None
        self._unpacking = threading.RLock()
        self._grew_at: dict[str, tuple[float, float]] = {}

    def look(self, now_s: float) -> DatasetScan:
        """Bring the memory up to date and give the result; the same object while nothing changed."""
        changed = self.scan is None
        for watched, table in self.files:
            try:
                status = os.stat(watched.path)
            except (FileNotFoundError, NotADirectoryError):
                change = watched.mark_gone()
            except OSError as error:
                change = watched.mark_unreadable(error)
            else:
                if watched.present and not watched.due and watched.is_unchanged(status):
                    continue
                self.unpack()
                change = self._refresh(watched, table, now_s)
            if change is Change.UNREADABLE:
                self.unpack()
                watched.distrust()
                table.clear()
            changed |= change is not Change.SAME
        if self._grew_at:
            changed |= self._forget_growth(now_s)
        if changed or self.scan is None:
            self.version += 1
            self.scan = self._build()
        return self.scan

    def _refresh(self, watched: WatchedFile, table: LineTable, now_s: float) -> Change:
        was_present, looked_before = watched.present, self.scan is not None
        change = watched.refresh(table)
        appeared = looked_before and not was_present and table.lines > 0
        # What a look finds that was not there when the index was saved may be hours old: it is growth only from now on.
        if looked_before and (change is Change.GREW or (change is Change.REREAD and appeared)):
            since, _ = self._grew_at.get(watched.path, (now_s, now_s))
            self._grew_at[watched.path] = (since, now_s)
        if change is Change.REREAD:
            self._compact()
        return change

    def _forget_growth(self, now_s: float) -> bool:
        quiet = [path for path, (_, last) in self._grew_at.items() if not -QUIET_S <= now_s - last <= QUIET_S]
        for path in quiet:
            del self._grew_at[path]
        return bool(quiet)

    # ---- the result

    def _build(self) -> DatasetScan:
        (prompts, _), (responses, _), (tokenized, _) = self.files
        have_prompts = prompts.present and prompts.reason is None
        have_responses = responses.present and responses.reason is None
        self._judge(have_prompts)
        tally, table = self.tally, self.responses
        readable = all(watched.reason is None for watched, _ in self.files)
        problems: list[Problem] = []
        for watched, lines in self.files:
            problems += self._problems_of(watched, lines)
        counted = self.exists and have_responses
        classes = Classes(
            valid=tally.valid if counted else 0,
            repairable=tally.repairable if counted else 0,
            unusable=table.unusable if counted else 0,
            duplicates=tally.duplicates if counted else 0,
            orphans=(tally.orphans if counted else 0) if have_prompts else None,
            torn=1 if counted and table.torn is not None else 0,
        )
        answered = classes.valid + classes.repairable
        return DatasetScan(
            folder=self.folder,
            kind=self._kind(),
            exists=self.exists,
            readable=readable,
            prompts=self.prompts.usable if have_prompts else None,
            responses=self._lines_of(responses, table),
            tokenized=self._lines_of(tokenized, self.rows),
            tokens=None if self._lines_of(responses, table) is None else tally.tokens if counted else 0,
            finish_reasons=dict(tally.finishes) if counted else {},
            classes=classes,
            problems=tuple(problems),
            no_eos=tally.no_eos if counted else 0,
            answered=answered,
            trailing_assistant=self.prompts.trailing_assistant if have_prompts else 0,
            forms=dict(self.prompts.forms) if have_prompts else {},
            lengths=tuple(tally.lengths) if counted else (0,) * len(tally.lengths),
            files=tuple(self._facts(watched, lines) for watched, lines in self.files),
            growing_since=self._growing_since(responses),
            version=self.version,
            contents=self._contents(),
            extent=Extent(
                self.prompts.usable if have_prompts else 0,
                answered,
                self.rows.good if tokenized.present and tokenized.reason is None else 0,
            ),
        )

    def _judge(self, have_prompts: bool) -> None:
        basis = (self.responses.epoch, self.prompts.epoch if have_prompts else None)
        if basis != self.judged_on:
            self.unpack()
            self.tally.clear()
            self.judged_on = basis
        if self.packed is None:
            self.tally.bring_up(self.responses, self.prompts if have_prompts else None)

    def _kind(self) -> str:
        if self.folder in DECLARED:
            return PROMPT_DATASET
        (prompts, _), (responses, _), (tokenized, _) = self.files
        only_rows = tokenized.present and not prompts.present and not responses.present
        return PRETOKENIZED if only_rows else PROMPT_DATASET

    def _lines_of(self, watched: WatchedFile, table: LineTable) -> int | None:
        if not self.exists or watched.reason is not None:
            return None
        return table.lines if watched.present else 0

    def _problems_of(self, watched: WatchedFile, table: LineTable) -> list[Problem]:
        name = os.path.basename(watched.path)
        if watched.reason is not None:
            return [Problem("unreadable", 1, name, None, None, watched.reason)]
        if not watched.present:
            return []
        found = list(table.problems.problems(name))
        if table is self.responses:
            found += self.tally.problems.problems(name)
        if table.torn is not None:
            torn = table.torn
            found.append(Problem("torn", 1, name, torn.line, torn.offset, torn.example))
        return found

    def _facts(self, watched: WatchedFile, table: LineTable) -> FileFacts:
        name = os.path.basename(watched.path)
        if not watched.present or watched.reason is not None or watched.stamp is None:
            return FileFacts(name, watched.present, watched.present and watched.reason is None, watched.reason)
        return FileFacts(
            name=name,
            present=True,
            readable=True,
            size_bytes=watched.stamp.size,
            mtime_s=watched.stamp.mtime_ns / 1e9,
            lines=table.lines,
            tail_bytes=watched.tail_bytes,
            growing_since=self._growing_since(watched),
        )

    def _growing_since(self, watched: WatchedFile) -> float | None:
        grew = self._grew_at.get(watched.path)
        return grew[0] if grew else None

    # ---- the ids

    def _contents(self) -> Contents:
        with self._unpacking:
            if self.packed is not None:
                if self._lazy is None:
                    self._lazy = Contents(self.unpack)
                return self._lazy
        contents = Contents()
        self._fill(contents)
        return contents

    def _fill(self, contents: Contents) -> None:
        contents.fill(
            self.ids.names,
            self.prompts.order,
            self.responses.number,
            self.responses.tokens,
            self.tally.used,
            self.rows.number,
        )

    def unpack(self) -> None:
        """Bring in what still lies packed in the index. A scan's reader may ask for it from another thread."""
        with self._unpacking:
            if self.packed is None:
                return
            try:
                self.packed()
            except BAD_PACK:
                self._start_over()
            self.packed = self.packed_state = None
            if self._lazy is not None:
                self._fill(self._lazy)
                self._lazy = None

    def _start_over(self) -> None:
        """What the index had cannot be unpacked: the next look reads everything again."""
        self.ids.fill([])
        for watched, table in self.files:
            watched.distrust()
            table.clear()
        self.scan = None

    def _compact(self) -> None:
        """Drop ids that no file speaks of any more, when they have become the majority."""
        tables = (self.prompts.order, self.responses.number, self.rows.number)
        if len(self.ids.names) <= 2 * sum(map(len, tables)) + 1000:
            return
        old = self.ids.names
        ids = IdTable()
        renumbered = [array("I", (ids.number(old[number]) for number in table)) for table in tables]
        self.ids = self.prompts.ids = self.responses.ids = self.rows.ids = ids
        self.prompts.order, self.responses.number, self.rows.number = renumbered
        self.prompts.remark()
        self.rows.remark()
        self.prompts.epoch += 1
        self.responses.epoch += 1
