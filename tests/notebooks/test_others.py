"""All notebooks as they are committed; those that train no VGGs are executed; whether there is one for each table and figure."""

import re
from pathlib import Path
from typing import Any

import pytest

from retrofit_core.experiments.tables import TABLES
from tests.marks import each_case
from tests.notebooks.running import (
    LARGEST,
    ROOT,
    SOURCES,
    VGG,
    committed_is_small_and_shows_in_plain_jupyterlab,
    committed_is_the_executed_source,
    runs_from_top_to_bottom,
)


@pytest.mark.long
@pytest.mark.parametrize(
    "source", [source for source in SOURCES if not source.name.startswith(VGG)], ids=lambda path: path.stem
)
def test_runs_from_top_to_bottom(source: Path, kernel: str, results: str, executing: Any) -> None:
    runs_from_top_to_bottom(source, kernel, results, executing)


@pytest.mark.slow
@each_case("source", SOURCES)
def test_committed_notebooks_are_the_executed_sources(source: Path, executing: Any) -> None:
    committed_is_the_executed_source(source, executing)


@pytest.mark.slow
@each_case("source", SOURCES)
def test_committed_notebooks_are_small_and_show_in_plain_jupyterlab(source: Path) -> None:
    committed_is_small_and_shows_in_plain_jupyterlab(source)


def test_every_table_and_figure_has_a_notebook_that_names_its_labels() -> None:
    texts = [source.read_text() for source in SOURCES]
    for name, table in TABLES.items():
        reads = re.compile(rf'^\w+ = table\(\s*"{name}"', re.MULTILINE)
        matching = [
            text for text in texts if reads.search(text) and all(f"`{label}`" in text for label in table.labels)
        ]
        assert len(matching) == 1, name
        assert "What agrees, what does not, and why" in matching[0]
    assert any("tab:comparison" in text for text in texts)
    assert any("tab:appendix-hp" in text and "tab:traininghyperparams" in text for text in texts)


def test_the_page_names_each_notebook_and_shows_the_pictures_that_there_are() -> None:
    page = (ROOT / "docs" / "notebooks.md").read_text()
    assert re.findall(r"\(\.\./notebooks/(\w+)\.ipynb\)", page) == [source.stem for source in SOURCES]
    pictures = sorted((ROOT / "docs" / "images" / "notebooks").glob("*.png"))
    assert sorted(re.findall(r"\(images/notebooks/(\w+)\.png\)", page)) == [picture.stem for picture in pictures]
    assert sum(picture.stat().st_size for picture in pictures) < LARGEST
