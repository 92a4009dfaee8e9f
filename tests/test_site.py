"""The documentation site: its generated pages say what tables and records say, and it is built without a network."""

import csv
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from retrofit_core.methods import METHODS
from tests.marks import ROOT, each_case, skip_without

skip_without("benchmarks", "docs/site", "mkdocs.yml", "notebooks")
RESULTS = ROOT / "benchmarks" / "results"
MODULES = ("commands", "gallery", "grids", "links", "measured", "methods")


@pytest.fixture(scope="module")
def generated():
    """The generated pages, path -> text."""
    kept = sys.path.copy()
    sys.path.insert(0, str(ROOT / "docs" / "site"))
    try:
        import commands
        import gallery
        import measured
        import methods

        return {
            path: text for module in (commands, gallery, measured, methods) for path, text in module.pages().items()
        }
    finally:
        sys.path[:] = kept
        for name in MODULES:
            sys.modules.pop(name, None)


@pytest.mark.slow
@each_case("name", METHODS)
def test_a_methods_page_has_its_formula_its_options_and_its_numbers(generated, name):
    page, method = generated[f"methods/{name.lower()}.md"], METHODS[name]
    assert "```math" in page and method.sentence in page
    for option, entry in method.settings({"importance": "uniform"}).items():
        assert f"| `{option}` |" in page, option
        assert entry.help.replace("*", "\\*")[:30] in page
    record = json.loads((RESULTS / "methods.json").read_text())
    rows = [
        row for part in ("uniform", "conductance", "repair") for row in record[part]["rows"] if row["method"] == name
    ]
    for row in rows:
        assert f"| {row['accuracy']:.2f} |" in page or f" {row['accuracy']:.2f} |" in page
    with (RESULTS / "experiments" / "ablation.csv").open() as file:
        studied = [
            float(line["value"])
            for line in csv.DictReader(file)
            if (line["column"], line["scale"][:6], line["row"]) == ("VGG11, non-IID", "given ", f"{name}, uniform")
            and "Linear" not in name  # with the paper's ridge there
        ]
    assert "Not measured on this pair" not in page or not (rows or studied)
    assert rows or all(f"| {accuracy:.2f} |" in page or f" {accuracy:.2f} |" in page for accuracy in studied)


class Loads(HTMLParser):
    """What a page loads by itself; links that a reader follows are none of it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "link" and given.get("rel") in ("canonical", "next", "prev", "alternate"):
            return
        if tag != "a":
            self.found += [
                given[name] for name in ("src", "href", "srcset", "data", "poster", "action") if given.get(name)
            ]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Built with every warning an error: links and anchors that lead nowhere, names without a docstring to show."""
    pytest.importorskip("mkdocs", reason="the packages of the extra `docs` are not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.long
def test_the_site_loads_nothing_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 60
    for page in pages:
        parser = Loads()
        parser.feed(page.read_text())
        foreign = [address for address in parser.found if re.match(r"(https?:)?//", address)]
        assert not foreign, (page, foreign)
        missing = [address for address in parser.found if not _exists(page, address)]
        assert not missing, (page, missing)
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", sheet.read_text()), sheet


def _exists(page: Path, address: str) -> bool:
    if re.match(r"data:|#|\.$", address) or page.name == "404.html":
        return True
    return (page.parent / address.partition("#")[0].partition("?")[0]).exists()
