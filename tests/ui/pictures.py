"""`make screenshots`: every scene as SVG and PNG in `screenshots/`, from recorded snapshots at a fixed clock.

The PNGs need rsvg-convert (librsvg2-bin) and the fonts fonts-firacode, fonts-dejavu; without it the SVGs are
made alone and that is said.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

from tests.ui.scenes import SCENES, SIZES, picture

FOLDER = Path(__file__).parent.parent.parent / "screenshots"
BROWSER = "serve.png"
"""Made by tests.link.serve_picture, from a real browser."""
CONVERT_DEADLINE_S = 60
PIXELS_A_COLUMN = 8
DRAWN = SIZES[:1]
"""The sizes that pages show as PNG; the others are there as SVG alone, to be compared."""


def to_png(svg: str, path: Path, columns: int) -> None:
    """Draw an SVG. Without xml:space the blanks of the terminal would collapse; Fira Code would join `<|` into one sign."""
    kept = svg.replace('<svg class="rich-terminal"', '<svg xml:space="preserve" class="rich-terminal"', 1)
    kept = kept.replace("Fira Code", "DejaVu Sans Mono").replace("font-size: 20px", "font-size: 20.26px")
    subprocess.run(
        ["rsvg-convert", "-w", str(columns * PIXELS_A_COLUMN), "-o", str(path)],
        input=kept.encode(),
        check=True,
        timeout=CONVERT_DEADLINE_S,
    )


async def make(folder: Path, wanted: list[str], png: bool) -> int:
    """Write the pictures whose names contain one of `wanted` (all when empty); returns how many."""
    folder.mkdir(exist_ok=True)
    made = set()
    for scene in SCENES:
        for size in scene.sizes:
            name = scene.file(size)
            if wanted and not any(word in name for word in wanted):
                continue
            svg = await picture(scene, size)
            (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
            if png and size in DRAWN:
                to_png(svg, folder / f"{name}.png", size[0])
                made.add(f"{name}.png")
            made.add(f"{name}.svg")
    if not wanted:
        for old in [*folder.glob("*.svg"), *folder.glob("*.png")]:
            if old.name not in made and old.name != BROWSER:
                old.unlink()
    return sum(name.endswith(".svg") for name in made)


def main() -> int:
    """Make all pictures, or those whose names contain one of the arguments."""
    png = shutil.which("rsvg-convert") is not None
    count = asyncio.run(make(FOLDER, sys.argv[1:], png))
    print(f"{count} pictures in {FOLDER.name}/{'' if png else '; no PNGs: rsvg-convert is not installed'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
