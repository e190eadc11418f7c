"""The committed pictures are those that the screens draw today: `make screenshots` brings them up to date."""

from __future__ import annotations

import pytest

from tests.ui.pictures import FOLDER
from tests.ui.scenes import SCENES, Scene, picture

SHOTS = [(scene, size) for scene in SCENES for size in scene.sizes]


@pytest.mark.parametrize(("scene", "size"), SHOTS, ids=[scene.file(size) for scene, size in SHOTS])
async def test_the_picture_is_up_to_date(scene: Scene, size: tuple[int, int]) -> None:
    kept = FOLDER / f"{scene.file(size)}.svg"
    assert kept.is_file(), "make screenshots has not been run"
    assert await picture(scene, size) == kept.read_text(encoding="utf-8"), "make screenshots brings it up to date"


def test_no_picture_is_left_over() -> None:
    assert {path.stem for path in FOLDER.glob("*.svg")} == {scene.file(size) for scene, size in SHOTS}
