"""The page of licences leaves nothing out, and CITATION.cff and CHANGELOG.md tell this version."""

import importlib.util
import re
import tomllib
from types import ModuleType

import pytest
import yaml

from retrofit_core.data.datasets import DATASETS
from retrofit_core.methods import METHODS
from tests.marks import ROOT, skip_without

skip_without("CHANGELOG.md", "CITATION.cff", "docs", "requirements-dev.txt")
PAGE = ROOT / "docs" / "licences.md"


def named(title: str) -> set[str]:
    """The names in the first column of the table under a title."""
    section = PAGE.read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \|", section, re.MULTILINE)[2:]
    return {name.strip("`") for row in rows for name in row.split(", ")}


def test_every_data_set_and_every_method_has_a_row():
    assert named("Data sets that have a name") == DATASETS.keys()
    assert METHODS.keys() <= named("Methods")


@pytest.fixture(scope="module")
def packages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("packages", ROOT / "docs" / "packages.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def of_family(said: str, stated: str) -> str:
    """The licence on the page, or its family where an older release that is installed states nothing finer: "BSD License"."""
    family = stated.removesuffix(" License")
    return stated if family != stated and said.startswith(f"{family}-") else said


def test_every_package_has_its_licence(packages):
    """Each that pyproject.toml or requirements-dev.txt names, with what its installed metadata state."""
    section = PAGE.read_text().split("\n## Packages\n")[1].split("\n## ")[0]
    rows = {
        name: (purpose, licence)
        for name, purpose, licence in re.findall(r"^\| (\S+) \| (.+?) \| (.+?) \|$", section, re.MULTILINE)[2:]
    }
    assert {name: purpose for name, (purpose, _) in rows.items()} == packages.packages()
    stated = {name: packages.licence_of(name) for name in rows}
    assert sum(licence is not None for licence in stated.values()) > len(rows) / 2
    # The page is of the newest torch; an older one that is installed brings fewer parts with licences of their own.
    torch = stated.pop("torch")
    assert torch is None or set(torch.split(" AND ")) <= set(rows["torch"][1].split(" AND "))
    said = {name: rows[name][1] for name, licence in stated.items() if licence}
    assert {name: of_family(said[name], stated[name]) for name in said} == {name: stated[name] for name in said}


def test_version_and_date_are_the_same_everywhere():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    newest = re.search(r"^## (\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest and newest.groups() == (version, str(citation["date-released"]))
    assert citation["version"] == version
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
