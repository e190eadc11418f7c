"""The pages made from the code say what the code says; README's key table too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tomllib

from console.reference import key_table, keys_page, settings_page
from console.settings import load_settings

REPO = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("name", "page"), [("keys.md", keys_page()), ("settings.md", settings_page())])
def test_page_is_up_to_date(name: str, page: str) -> None:
    assert (REPO / "docs" / name).read_text(encoding="utf-8") == page, "make docs writes it anew"


def test_readme_has_the_main_keys() -> None:
    assert key_table("main") in (REPO / "README.md").read_text(encoding="utf-8")


def test_the_sample_settings_file_is_valid(tmp_path: Path) -> None:
    sample = re.search(r"```toml\n(.*?)```", settings_page(), re.DOTALL)
    assert sample is not None
    tomllib.loads(sample[1])
    path = tmp_path / "config.toml"
    path.write_text(sample[1])
    settings = load_settings(None, {"config": str(path)}, {})
    assert settings.profile == "gpu8"
    assert settings.options.token_budget.default == 10_000_000


def test_links_between_pages_lead_somewhere() -> None:
    for page in [REPO / "README.md", *sorted((REPO / "docs").glob("*.md"))]:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"
