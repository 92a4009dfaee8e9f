"""The page of licences leaves nothing out."""

import re
from pathlib import Path

from retrofit_core.data.datasets import DATASETS
from retrofit_core.methods import METHODS

PAGE = Path(__file__).parent.parent / "docs" / "licences.md"


def named(title: str) -> set[str]:
    """The names in the first column of the table under a title."""
    section = PAGE.read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \|", section, re.MULTILINE)[2:]
    return {name.strip("`") for row in rows for name in row.split(", ")}


def test_every_data_set_and_every_method_has_a_row():
    assert named("Data sets that have a name") == DATASETS.keys()
    assert METHODS.keys() <= named("Methods")
