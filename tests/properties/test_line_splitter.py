"""Lines come out whole however the bytes were cut on the way; a monstrous one costs only itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from console.pipe import LineSplitter, Noise

LIMIT = 12
LINES = st.lists(st.binary(max_size=2 * LIMIT).filter(lambda line: b"\n" not in line), max_size=12)


@given(
    LINES, st.binary(max_size=LIMIT).filter(lambda rest: b"\n" not in rest), st.lists(st.integers(0, 400), max_size=20)
)
def test_any_cut_gives_the_same_lines(lines: list[bytes], rest: bytes, cuts: list[int]) -> None:
    data = b"".join(line + b"\n" for line in lines) + rest
    splitter, got, at = LineSplitter(LIMIT), [], 0
    for cut in [*sorted(cuts), len(data)]:
        got += splitter.feed(data[at : max(at, cut)])
        at = max(at, min(cut, len(data)))
    assert got == [line for line in lines if len(line) <= LIMIT]
    assert splitter.dropped == sum(len(line) > LIMIT for line in lines)
    assert splitter.rest() == rest


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_noise_is_bounded_and_clean(parts: list[bytes]) -> None:
    noise = Noise(limit=5)
    for part in parts:
        noise.feed(part)
    lines = noise.lines()
    assert len(lines) <= 6
    for line in lines:
        assert line == line.strip() != "" and line.isprintable() and len(line) <= 200
