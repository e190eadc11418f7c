"""The thread that writes answers: nobody waits for ever, whatever happens to it."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from remote.answers import AnswerWriter
from remote.errors import OperatorError
from remote.layout import RESPONSES, Layout
from tests.support.tree import line, response

FOLDER = "B4_mixturethoughts"
DEADLINE_S = 30


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    (tmp_path / FOLDER).mkdir()
    return Layout(tmp_path)


def _answer(number: int) -> tuple[str, bytes, bytes]:
    return FOLDER, line(response(f"s{number}", 4)), line({"sample_id": f"s{number}"})


async def test_a_cancelled_task_leaves_its_answer_whole(layout: Layout) -> None:
    async with asyncio.timeout(DEADLINE_S):
        writer = AnswerWriter(layout)
        tasks = [asyncio.create_task(writer.write(*_answer(number))) for number in range(50)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await writer.close()
    lines = (layout.folder(FOLDER) / RESPONSES).read_bytes().splitlines()
    assert len(lines) == 50 and writer.waiting == 0


async def test_after_the_end_nothing_is_taken(layout: Layout) -> None:
    async with asyncio.timeout(DEADLINE_S):
        writer = AnswerWriter(layout)
        await writer.write(*_answer(1))
        await writer.close()
        with pytest.raises(OperatorError, match="closed"):
            await writer.write(*_answer(2))
        await writer.close()


async def test_a_fault_of_ours_is_told_and_not_waited_for(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    async with asyncio.timeout(DEADLINE_S):
        writer = AnswerWriter(layout)
        await writer.open(FOLDER)
        monkeypatch.setattr("remote.journal.Journal.append", lambda self, line: 1 / 0)
        with pytest.raises(OperatorError, match="ZeroDivisionError"):
            await writer.write(*_answer(1))
        monkeypatch.undo()
        await writer.write(*_answer(2))
        await writer.close()


async def test_one_bad_dataset_does_not_stop_the_others(layout: Layout) -> None:
    (layout.root / "B5_openthoughts").mkdir()
    (layout.root / "B5_openthoughts" / RESPONSES).mkdir()
    async with asyncio.timeout(DEADLINE_S):
        writer = AnswerWriter(layout)
        _, record, answer = _answer(1)
        results = await asyncio.gather(
            writer.write("B5_openthoughts", record, answer),
            writer.write(FOLDER, record, answer),
            return_exceptions=True,
        )
        assert isinstance(results[0], OperatorError) and results[1] is None
        await writer.close()


async def test_a_disk_that_does_not_answer_is_told_at_the_end(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging, release = threading.Event(), threading.Event()
    fsync = os.fsync

    def hang(fd: int) -> None:
        hanging.set()
        release.wait(DEADLINE_S)
        fsync(fd)

    async with asyncio.timeout(DEADLINE_S):
        writer = AnswerWriter(layout)
        await writer.open(FOLDER)
        monkeypatch.setattr(os, "fsync", hang)
        task = asyncio.create_task(writer.write(*_answer(1)))
        await asyncio.to_thread(hanging.wait, DEADLINE_S)
        assert writer.waiting == 1 and writer.stalled_s > 0
        with pytest.raises(OperatorError, match="has not answered"):
            await writer.close(timeout_s=0.05)
        release.set()
        await task
    assert len((layout.folder(FOLDER) / RESPONSES).read_bytes().splitlines()) == 1


async def test_lines_that_are_none_are_refused_before_they_are_handed_in(layout: Layout) -> None:
    async with asyncio.timeout(DEADLINE_S):
        writer = AnswerWriter(layout)
        for record, answer in ((b"", b"{}\n"), (b"{}\n", b"{}"), (b"{}\n{}\n", b"{}\n")):
            with pytest.raises(ValueError):
                await writer.write(FOLDER, record, answer)
        await writer.close()
    assert not (layout.folder(FOLDER) / RESPONSES).exists()
