"""The table of datasets: from a `View` to columns and rows of finished text. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from rich.text import Text

from console import text
from console.view import Level, View
from remote.options import Budget
from widgets.bars import bar
from widgets.columns import Column, Row
from widgets.tones import ACT, DIM, GOOD, LOOK, NOTE, UNKNOWN

if TYPE_CHECKING:
    from console.model import Dataset


class Width(StrEnum):
    """How much room there is; the class names are those of the screen's breakpoints."""

    NARROW = "narrow"
    """Below 79 columns: the essentials."""
    COMPACT = "compact"
    WIDE = "wide"
    """From 120 columns on: everything."""


NARROW_BELOW = 79
WIDE_FROM = 120


def width_of(columns: int) -> Width:
    """The layout for a terminal that many columns wide."""
    if columns < NARROW_BELOW:
        return Width.NARROW
    return Width.WIDE if columns >= WIDE_FROM else Width.COMPACT


class Order(StrEnum):
    """The order of the rows."""

    BY_RUN = "in the run's order"
    BY_STATE = "what is worked on first"
    BY_MISSING = "most tokens missing first"

    @property
    def next(self) -> Order:
        """The order that comes after this one."""
        orders = list(Order)
        return orders[(orders.index(self) + 1) % len(orders)]


_STATE_WORDS = {
    "missing": "missing",
    "pretokenized": "pretokenized",
    "no-prompts": "no prompts",
    "faulty": "faulty",
    "tokenizing": "tokenizing",
    "running": "running",
    "draining": "draining",
    "budget-met": "budget met",
    "samples-met": "samples met",
    "exhausted": "exhausted",
    "partial": "partial",
    "waiting": "waiting",
}
_STATE_TONES = {
    "missing": ACT,
    "no-prompts": ACT,
    "faulty": ACT,
    "running": NOTE,
    "tokenizing": NOTE,
    "draining": NOTE,
    "budget-met": GOOD,
    "samples-met": GOOD,
    "exhausted": LOOK,
    "pretokenized": DIM,
    "waiting": DIM,
}
_STATE_RANK = ("running", "draining", "tokenizing", "faulty", "missing", "no-prompts", "partial", "waiting")


def columns(width: Width, budget: Budget, extra: int = 0) -> tuple[Column, ...]:
    """The columns for a width; `extra` cells more go to the dataset's name and the bar."""
    of = budget_label(budget)
    if width is Width.NARROW:
        return (
            Column("id", "ID", 2),
            Column("tokens", "tokens", 7, "right"),
            Column("percent", of, max(5, len(of)), "right"),
            Column("state", "state", 13),
        )
    if width is Width.COMPACT:
        return (
            Column("id", "ID", 2),
            Column("answers", "answers/prompts", 15, "right"),
            Column("tokens", "tokens", 7, "right"),
            Column("bar", of, 12 + min(extra, 12)),
            Column("eta", "ETA", 9, "right"),
            Column("schema", "schema", 8),
            Column("state", "state", 12),
        )
    name = 16 + min(extra, 8)
    return (
        Column("id", "ID", 2),
        Column("name", "dataset", name),
        Column("prompts", "prompts", 7, "right"),
        Column("responses", "responses", 9, "right"),
        Column("tokenized", "tokenized", 9, "right"),
        Column("tokens", "tokens", 7, "right"),
        Column("bar", of, 12 + min(max(0, extra - 8), 20)),
        Column("rate", "rate", 7, "right"),
        Column("eta", "ETA", 9, "right"),
        Column("schema", "schema", 8),
        Column("state", "state", 12),
    )


def budget_label(budget: Budget) -> str:
    """The head of the bar's column: `of 10 M`; `of budget` where datasets differ; `tokens only` without one."""
    if budget.per:
        return "of budget"
    return f"of {text.limit(budget.default)}" if budget.default else "no budget"


def rows(view: View, cols: Sequence[Column], order: Order = Order.BY_RUN) -> tuple[Row, ...]:
    """One row a dataset. Figures of a stale view stay as they were; the table greys them."""
    snapshot = view.snapshot
    if snapshot is None:
        return ()
    bar_width = next((column.width for column in cols if column.id == "bar"), 0)
    return tuple(_row(view, row, bar_width) for row in _ordered(snapshot.datasets, order))


def _ordered(datasets: Sequence[Dataset], order: Order) -> list[Dataset]:
    if order is Order.BY_STATE:
        return sorted(datasets, key=_state_rank)
    if order is Order.BY_MISSING:
        return sorted(datasets, key=lambda row: -(row.remaining_tokens or 0))
    return list(datasets)


def _state_rank(row: Dataset) -> int:
    return _STATE_RANK.index(row.state) if row.state in _STATE_RANK else len(_STATE_RANK)


def _row(view: View, row: Dataset, bar_width: int) -> Row:
    pretokenized = row.kind == "pretokenized"
    eta = view.eta_s.get(row.folder)
    return Row(
        row.folder,
        {
            "id": Text(row.id, "bold"),
            "name": Text(row.title),
            "prompts": _count(row.prompts),
            "responses": _count(row.responses),
            "tokenized": _count(row.tokenized, zero_is_nothing=row.tokenized == 0),
            "answers": _answers(row),
            "tokens": _figure(None if pretokenized else row.tokens, text.tokens(row.tokens)),
            "bar": share_bar(row.tokens, row.budget, bar_width),
            "percent": _percent(row.tokens, row.budget),
            "rate": _rate(view.rate_of(row)),
            "eta": _figure(eta, text.duration(eta)),
            "schema": schema_word(row),
            "state": state_word(view, row),
        },
    )


def _figure(known: object, words: str) -> Text:
    return Text(UNKNOWN, DIM) if known is None else Text(words, "" if known else DIM)


def _rate(tokens_s: float | None) -> Text:
    """`1,170/s`; from ten thousand on `11.7k/s`, which takes as many cells."""
    fast = tokens_s is not None and tokens_s >= 9_995
    return _figure(tokens_s, f"{text.about_tokens(tokens_s).replace(' ', '')}/s" if fast else text.rate(tokens_s))


def _count(number: int | None, zero_is_nothing: bool = False) -> Text:
    if number is None or zero_is_nothing:
        return Text(UNKNOWN if number is None else "0", DIM)
    return Text(_exact(number), DIM if number == 0 else "")


def _exact(number: int | None) -> str:
    """Exact where it fits. A figure of seven digits does not, and a cut one reads like another: 1,000,… is no thousand."""
    return text.count(number) if number is None or number < 1_000_000 else text.about_tokens(number)


def _answers(row: Dataset) -> Text:
    done = row.responses if row.answered is None else row.answered
    return _both(done, row.prompts)


def _both(done: int | None, prompts: int | None) -> Text:
    if done is None and prompts is None:
        return Text(UNKNOWN, DIM)
    return Text(f"{_exact(done)}/{_exact(prompts)}", DIM if not done else "")


def _percent(tokens: int | None, budget: int | None) -> Text:
    if tokens is None or not budget:
        return Text(UNKNOWN, DIM)
    return Text(text.percent(tokens, budget), DIM if tokens == 0 else "")


def share_bar(tokens: int | None, budget: int | None, width: int) -> Text:
    """A bar and its percentage, `width` cells in all."""
    percent = _percent(tokens, budget)
    if tokens is None or not budget:
        percent.pad_left(max(0, width - percent.cell_len))
        return percent
    share = tokens / budget
    cells = max(0, width - 6)
    out = Text()
    out.append(bar(share, cells), f"{DIM} {GOOD if share >= 1 else NOTE}")
    out.append_text(_right(percent, width - cells))
    return out


def _right(words: Text, width: int) -> Text:
    words.pad_left(max(0, width - words.cell_len))
    return words


def schema_word(row: Dataset) -> Text:
    """`✓ 2,912` when all is well; `~3 ✗2` when some records are repairable or unusable; more marks for the rest."""
    schema = row.schema
    if schema.valid is None and schema.unusable is None:
        return Text(UNKNOWN, DIM)
    bad = (schema.unusable or 0) + (schema.torn or 0)
    odd = (schema.repairable or 0) + (schema.duplicates or 0) + (schema.orphans or 0)
    if not bad and not odd:
        return Text(f"✓ {short(schema.valid)}", GOOD) if schema.valid else Text(UNKNOWN, DIM)
    out = Text()
    if odd:
        out.append(f"~{short(odd)}", LOOK)
    if bad:
        out.append(" " if odd else "").append(f"✗{short(bad)}", ACT)
    return out


def short(number: int | None) -> str:
    """A count for a narrow place: exact up to 99,999, else `138 k`."""
    if number is None:
        return UNKNOWN
    return text.count(number) if number < 100_000 else text.tokens(number).replace(" ", "")


def state_word(view: View, row: Dataset) -> Text:
    """The state in plain words, with `▲` when an alert that nobody has seen names this dataset."""
    state = row.state or ""
    out = Text(_STATE_WORDS.get(state, state or UNKNOWN), _STATE_TONES.get(state, ""))
    if row.inference.decision == "blocked" and state in ("partial", "waiting"):
        out = Text("blocked", ACT)  # what waits will be served by a restart; this will not
    loud = [alert for alert in view.alerts if alert.dataset in (row.folder, row.id) and not alert.acked_by]
    worst = max((alert.level.rank for alert in loud), default=-1)
    if worst >= Level.WARNING.rank:
        out.append(" ▲", ACT if worst == Level.CRITICAL.rank else LOOK)
    return out


def foot(view: View, cols: Sequence[Column]) -> dict[str, Text]:
    """The cells of the line below the table: sums over all datasets."""
    totals = view.totals
    width = next((column.width for column in cols if column.id == "bar"), 0)
    of = Text(f"of {text.limit(totals.budget)}", DIM) if totals.budget else Text("")
    return {
        "name": Text("all", DIM),
        "prompts": _count(totals.prompts),
        "responses": _count(totals.responses),
        "answers": _both(totals.responses, totals.prompts),
        "tokens": _figure(totals.tokens, text.tokens(totals.tokens)),
        "bar": share_bar(totals.budgeted_tokens, totals.budget, width),
        "percent": _percent(totals.budgeted_tokens, totals.budget),
        "rate": _rate(totals.rate_tokens_s),
        "eta": _figure(totals.eta_s, text.duration(totals.eta_s)),
        "state": of,
    }
