"""The packages that pyproject.toml and requirements-dev.txt name, with the licences that their own metadata state.

`python docs/packages.py` prints the table of docs/licences.md; tests/test_licences.py compares them.
"""

import re
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHORT = 40  # letters of a licence's name; longer ones are its text
HEAD = ("| package | for | licence |", "| --- | --- | --- |")


def packages() -> dict[str, str]:
    """Package -> what it is for: core, an extra, or development; the first of these that names it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    named = {"core": project["project"]["dependencies"], **project["project"]["optional-dependencies"]}
    lines = (line.partition("#")[0].strip() for line in (ROOT / "requirements-dev.txt").read_text().splitlines())
    named |= {"development": [line for line in lines if line], "to build": project["build-system"]["requires"]}
    purposes: dict[str, str] = {}
    for purpose, requirements in named.items():
        for name in _names(requirements):
            purposes.setdefault(name, purpose)
    return purposes


def _names(requirements: Iterable[str]) -> list[str]:
    names = [re.split(r"[\[<>=~! ]", requirement, maxsplit=1)[0] for requirement in requirements]
    return [name for name in names if name != "retrofit-workbench"]


def licence_of(package: str) -> str | None:
    """What the metadata of an installed package state: an SPDX expression, a name, a classifier, or the first line of a text;
    None where it is not installed."""
    try:
        facts = metadata(package)
    except PackageNotFoundError:
        return None
    name = (facts.get("License") or "").strip()
    classified = [
        line.rpartition(" :: ")[2] for line in facts.get_all("Classifier") or () if line.startswith("License ::")
    ]
    if expression := facts.get("License-Expression"):
        return expression
    if name and "\n" not in name and len(name) <= SHORT:
        return name
    return ", ".join(classified) or name.split("\n")[0] or "not stated"


def table() -> str:
    """The table in Markdown; of packages that are not installed it keeps what the page says."""
    purposes = packages()
    page = (ROOT / "docs" / "licences.md").read_text()
    said = dict(re.findall(r"^\| (\S+) \| [^|]+ \| ([^|]+) \|$", page.split("\n## Packages\n")[1], re.MULTILINE))
    names = sorted(purposes, key=str.lower)
    rows = [f"| {name} | {purposes[name]} | {licence_of(name) or said.get(name, '')} |" for name in names]
    return "\n".join([*HEAD, *rows])


if __name__ == "__main__":
    print(table())
