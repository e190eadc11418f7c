"""Whatever is drawn fits where it is drawn: bars, curves, wrapped words, cells, tokens, key bars, top lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from console.ascii_filter import plain
from console.layout_main import main_layout
from console.pattern import compile_pattern
from console.present_table import Order, Width, columns, foot, rows, width_of
from console.present_top import alert_lines, top_line
from remote.errors import OperatorError
from remote.options import Budget
from remote.text import clean
from tests.support.recorded import STATES, live_link, snapshot_json, stale_link, view_of
from widgets.bars import bar, sparkline
from widgets.columns import Column, columns_width, fitted
from widgets.key_bar import KeyBar, KeyHint
from widgets.token_row import Token, token_rows
from widgets.wrapping import wrapped, wrapped_text

WORDS = st.text(alphabet=st.characters(codec="utf-8"), max_size=60).map(lambda words: clean(words, 60))
SIZES = st.integers(1, 120)
FIGURES = st.one_of(st.none(), st.floats(-1, 1e9, allow_nan=False))
VIEWS = {name: view_of(snapshot_json(name)) for name in STATES}
VIEWS["stale"] = view_of(snapshot_json("running"), link=stale_link(VIEWS["running"].now))
VIEWS["first look"] = view_of(None, link=live_link())


@given(st.floats(0, 5), SIZES)
def test_a_bar_fills_its_cells_and_tells_something_from_nothing_and_all(share: float, width: int) -> None:
    drawn = bar(share, width)
    assert cell_len(drawn) == width
    assert bool(drawn.strip()) == (share > 0)
    assert (drawn == "█" * width) == (share >= 1)


@given(st.floats(0, 1), st.floats(0, 1), SIZES)
def test_more_is_never_drawn_shorter(one: float, other: float, width: int) -> None:
    order = " ▏▎▍▌▋▊▉█"
    low, high = (bar(share, width) for share in sorted((one, other)))
    assert sum(map(order.index, low)) <= sum(map(order.index, high))


@given(st.lists(FIGURES, max_size=400), SIZES)
def test_a_curve_fills_its_cells_and_gaps_are_not_lows(values: list[float | None], width: int) -> None:
    drawn = sparkline(values, width)
    assert cell_len(drawn) == width
    if values and all(value is None for value in values):
        assert set(drawn.strip()) == {"·"}
    if values and None not in values:
        assert "·" not in drawn


@given(st.text(alphabet="ab 漢字é-", max_size=80), SIZES)
def test_wrapped_words_are_all_there_and_fit(words: str, width: int) -> None:
    lines = wrapped(words, width)
    assert lines
    assert all(cell_len(line) <= max(width, 2) for line in lines)
    assert "".join(lines).replace(" ", "") == words.replace(" ", "")


HELD = st.sampled_from(["178 k", "8 h 27 m", "104 %,", "pid 911", "--max-samples 70", "1.40 GB)", "datasets: 1,655"])


@given(st.lists(st.one_of(HELD, st.sampled_from(["left", "alone", "it", "makes", "of"])), max_size=20), SIZES)
def test_what_is_read_as_one_stays_on_one_line(parts: list[str], width: int) -> None:
    lines = wrapped(" ".join(parts), max(20, width))
    assert " ".join(lines) == " ".join(parts)
    for part in parts:
        assert any(part in line for line in lines)


@given(st.lists(st.text("abcde_", min_size=1, max_size=12), min_size=2, max_size=12), st.integers(16, 60))
def test_a_path_is_broken_between_its_folders(names: list[str], width: int) -> None:
    path = "/" + "/".join(names)
    lines = wrapped(f"root {path}", width)
    assert "".join(lines).replace(" ", "") == f"root{path}"
    assert all(line.endswith("/") or line == "root" for line in lines[:-1])


@given(st.lists(WORDS, max_size=5), st.integers(2, 80))
def test_styled_text_is_broken_as_its_words_are_and_keeps_its_colours(lines: list[str], width: int) -> None:
    text = Text("\n").join(Text(line, "red") for line in lines)
    broken = wrapped_text(text, width)
    assert all(line.cell_len <= width for line in broken)
    assert "".join(line.plain for line in broken).replace(" ", "") == text.plain.replace(" ", "").replace("\n", "")
    red = sum(len(line.plain[span.start : span.end].replace(" ", "")) for line in broken for span in line.spans)
    assert red == len(text.plain.replace(" ", "").replace("\n", ""))


@given(WORDS, SIZES, st.sampled_from(["left", "right"]))
def test_a_cell_is_as_wide_as_its_column(words: str, width: int, align: str) -> None:
    assert fitted(Text(words), Column("x", "x", width, align)).cell_len == width


@given(st.lists(st.builds(Token, st.integers(0, 9), WORDS, st.integers(0, 1), st.booleans()), max_size=40), SIZES)
def test_a_training_row_fits_and_tells_its_mask_without_colour(tokens: list[Token], width: int) -> None:
    lines = token_rows(tokens, width)
    heads = [line.plain for line in lines if line.plain.startswith("── ")]
    changes = sum(1 for at, token in enumerate(tokens) if not at or tokens[at - 1].mask != token.mask)
    assert len(heads) == changes
    for line in lines:
        assert line.plain.startswith("── ") or line.plain[0] in "┃┆"
        assert line.plain.startswith("── ") or line.cell_len <= max(width, 8) + 1


@given(st.text(max_size=60))
def test_ascii_keeps_the_width(words: str) -> None:
    words = clean(words, 60)
    assert plain(words).isascii()
    assert cell_len(plain(words)) == cell_len(words)


@given(st.sampled_from(sorted(VIEWS)), st.integers(24, 220))
def test_the_top_line_fits_and_keeps_what_matters(name: str, width: int) -> None:
    view = VIEWS[name]
    line = top_line(view, width, width_of(width))
    assert line.cell_len <= max(width - 2, 28)
    assert ("live" if view.link.fresh else "STALE") in line.plain


@given(st.sampled_from(sorted(VIEWS)), st.integers(30, 220), st.integers(1, 12))
def test_alerts_keep_to_their_lines(name: str, width: int, most: int) -> None:
    lines = alert_lines(VIEWS[name], width, most)
    assert 1 <= len(lines) <= most


@given(st.sampled_from(sorted(VIEWS)), st.integers(28, 220), st.sampled_from(list(Order)))
def test_every_row_is_there_in_every_width_and_order(name: str, width: int, order: Order) -> None:
    view = VIEWS[name]
    layout = width_of(width)
    spare = width - columns_width(columns(layout, Budget())) - 2
    cols = columns(layout, Budget(), max(0, spare))
    if layout is not Width.NARROW:
        assert columns_width(cols) <= width
    shown = rows(view, cols, order)
    datasets = view.snapshot.datasets if view.snapshot else ()
    assert sorted(row.key for row in shown) == sorted(row.folder for row in datasets)
    assert all(column.id in row.cells for row in shown for column in cols)
    assert set(foot(view, cols))


@given(st.sampled_from(list(Width)), st.integers(8, 100), st.integers(1, 30), st.integers(1, 2), st.integers(1, 20))
def test_the_lines_of_the_main_screen_add_up(width: Width, lines: int, datasets: int, keys: int, alerts: int) -> None:
    shape = main_layout(width, lines, datasets, keys, alerts)
    used = 1 + keys + shape.table + shape.process + 2 * shape.framed + shape.foot + shape.alerts
    assert used <= lines
    if lines >= datasets + 5:
        assert shape.table == datasets + 1
        assert shape.alerts >= 1


@given(
    st.lists(
        st.builds(KeyHint, st.sampled_from("rKdb⏎"), st.sampled_from(["restart", "kill", "x"]), st.just("a")),
        max_size=20,
    ),
    SIZES,
)
def test_a_key_bar_is_two_lines_at_most(hints: list[KeyHint], width: int) -> None:
    assert KeyBar(hints).line_count(width) in (1, 2)


@given(st.text(alphabet="ab()[]*+?|{}\\1,^$.", max_size=14), st.text(alphabet="ab", max_size=30))
def test_a_search_compiles_or_is_refused_and_always_ends(pattern: str, line: str) -> None:
    try:
        found = compile_pattern(pattern)
    except OperatorError as error:
        assert error.code == "bad-search"
        return
    found.search(line)
