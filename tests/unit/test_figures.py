"""Figures as people read them: three significant digits, one unit, unknown is –, never a wrong boundary."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console import text
from remote import figures

UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (None, "–"),
        (0, "0"),
        (999, "999"),
        (1_000, "1.00 k"),
        (4_400, "4.40 k"),
        (999_499, "999 k"),
        (999_999, "1.00 M"),
        (10_450_000, "10.45 M"),
        (10_700_000, "10.70 M"),
        (21_154_400, "21.15 M"),
        (138_000_000, "138 M"),
        (-1_300_000, "-1.30 M"),
    ],
)
def test_tokens(number: float | None, shown: str) -> None:
    assert figures.tokens(number) == shown


@pytest.mark.parametrize(
    ("function", "value", "shown"),
    [
        (figures.count, 2912, "2,912"),
        (figures.about, 34_912, "34,900"),
        (figures.about, 412.4, "412"),
        (figures.about_tokens, 15_021_429, "15.0 M"),
        (figures.limit, 10_000_000, "10 M"),
        (figures.limit, 10_500_000, "10.5 M"),
        (figures.limit, 0, "none"),
        (figures.duration, 0.4, "0.4 s"),
        (figures.duration, 42, "42 s"),
        (figures.duration, 485, "8 m 05 s"),
        (figures.duration, 59.7, "1 m 00 s"),
        (figures.duration, 30_427, "8 h 27 m"),
        (figures.duration, 5 * 3600 + 120, "5 h 02 m"),
        (figures.duration, 1e6, "11 d 14 h"),
        (figures.duration, -3, "0 s"),
        (figures.duration, math.inf, "–"),
        (figures.rate, 590.2, "590/s"),
        (figures.rate, 4.21, "4.2/s"),
        (figures.rate, 0, "0/s"),
        (figures.size, 390e6, "390 MB"),
        (figures.size, 812, "812 B"),
        (figures.size, 1.4e9, "1.40 GB"),
        (text.age, 42, "42 s"),
        (text.age, 7300, "2 h"),
        (text.age, -1, "0 s"),
        (text.offset, -184, "-3 m 04 s"),
        (text.offset, 0.2, "+0.2 s"),
        (text.clock, 11_564, "03:12:44"),
        (text.clock, 1e30, "–"),
    ],
)
def test_figures(function: object, value: float, shown: str) -> None:
    assert function(value) == shown  # type: ignore[operator]
    assert function(None) == "–"  # type: ignore[operator]


def test_a_hundred_percent_means_reached() -> None:
    assert text.percent(9_999_999, 10_000_000) == "99 %"
    assert text.percent(10_000_000, 10_000_000) == "100 %"
    assert text.percent(10_450_000, 10_000_000) == "104 %"
    assert text.percent(3, 1000) == "0.3 %"
    assert text.percent(1, 0) == text.percent(None, 5) == "–"


def test_moments_are_as_short_as_they_can_be_told_apart() -> None:
    now = 1_700_000_000.0
    assert text.moment(now - 60, now) == "22:12"
    assert text.moment(now - 86_400, now) == "Nov 13 22:13"
    assert text.moment(now - 400 * 86_400, now) == "2022-10-10"


@given(st.integers(0, 10**12))
def test_tokens_are_never_more_than_half_a_percent_off(number: int) -> None:
    match = re.fullmatch(r"([\d,]+(?:\.\d+)?)(?: ([kMG]))?", figures.tokens(number))
    assert match is not None
    value = float(match[1].replace(",", "")) * UNITS[match[2] or ""]
    assert value == pytest.approx(number, rel=0.00501, abs=0.5)
    assert number < 1000 or 1 <= float(match[1].replace(",", "")) <= 1000


@given(st.floats(0, 1e9))
def test_durations_are_never_far_off_and_never_odd(seconds: float) -> None:
    shown = figures.duration(seconds)
    units = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
    parts = re.findall(r"([\d.]+) ([dhms])", shown)
    assert " ".join(f"{number} {unit}" for number, unit in parts) == shown
    assert all(float(number) < 60 for number, unit in parts if unit in "ms")
    assert sum(float(number) * units[unit] for number, unit in parts) == pytest.approx(seconds, rel=0.02, abs=0.06)


@given(st.text(max_size=30), st.integers(0, 20))
def test_fitted_text_is_exactly_as_wide_as_asked(words: str, width: int) -> None:
    assert text.cells(text.fit(words, width)) == width


@given(st.text(st.characters(categories=("L", "N", "P", "Zs")), max_size=80), st.integers(2, 20))
def test_wrapped_text_fits_and_loses_nothing(words: str, width: int) -> None:
    lines = text.wrap(words, width)
    assert lines and all(text.cells(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(words.split())


def test_wide_characters_count_twice() -> None:
    assert text.cells("模型") == 4
    assert text.fit("模型abc", 4) == "模… "
    assert text.cut("模型", 3) == "模"
