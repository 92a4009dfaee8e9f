"""The code of docs/*.md, run as a reader would: in an empty folder, from a page's first block to its last.

README has its own tests (test_readme.py), and so have the classes of architecture.md (test_architecture_page.py).
"""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import typer.main
from torch.utils.data import DataLoader, TensorDataset

from retrofit_core.cli import main
from retrofit_core.cli.application import app
from retrofit_core.data import load
from retrofit_core.networks.architectures import build
from retrofit_core.system.monitor import Monitor
from tests.marks import ROOT, each_case, skip_without

skip_without("README.md", "app", "benchmarks", "docs/images", "mkdocs.yml", "notebooks")
PAGES = {path.name: path.read_text() for path in sorted((ROOT / "docs").glob("*.md"))}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: Blocks that are classes to be pasted into the library; test_architecture_page.py pastes them.
PASTED = "from ...system.settings import"
#: Pages whose shell lines run; those of others name data and checkpoints that nobody ships, and are only parsed.
RUN = {"start.md", "own_networks.md"}
#: Page -> (words on it, those in their place): what takes minutes at full size.
QUICKER = {
    "start.md": [("retrofit train --out parents", "retrofit train --out parents --epochs 2")],
    "own_networks.md": [
        ("epochs=3", "epochs=1"),
        ("--epochs 3", "--epochs 1"),
        ("range(11)", "range(2)"),
        ("resnet18", "squeezenet1_1"),
    ],
    "training.md": [("epochs=30", "epochs=1")],
    "landscape.md": [("resolution=15, images=256", "resolution=3, images=32")],
}
#: Pages to look things up in, which may be long: those of numbers, tables and formulas.
REFERENCE = {
    "architecture.md",
    "defaults.md",
    "findings.md",
    "findings_beyond.md",
    "formats.md",
    "formulas.md",
    "inputs.md",
    "licences.md",
    "measurements.md",
    "method.md",
    "methods.md",
    "notebooks.md",
    "troubleshooting.md",
}


def blocks(page: str) -> list[tuple[str, str]]:
    return BLOCK.findall(PAGES[page])


def code(page: str) -> list[str]:
    return [text for kind, text in blocks(page) if kind == "python" and PASTED not in text]


def granted(page: str, folder: Path) -> dict[str, object]:
    """The names and files that a page takes for granted, because another page made them."""
    if page == "training.md":  # a finished run
        bundled = ROOT / "app" / "retrofit_app" / "bundled"
        shutil.copytree(bundled, folder, dirs_exist_ok=True)
        shutil.copytree(bundled / "kf-linear", folder / "runs" / "3f2a")
    if page == "own_networks.md":
        return {"loader": DataLoader(TensorDataset(torch.randn(16, 3, 32, 32)), batch_size=8)}
    if page != "landscape.md":
        return {}
    images = load("digits", "test")
    parents = [build({"architecture": "cnn"}, seed=seed) for seed in range(3)]
    x, y = images.inputs(list(range(40))), images.labels[:40]
    names = {"parent0": parents[0], "parent1": parents[1], "fused": parents[2], "draw": lambda *_: None}
    return {**names, "images": images, "x": x, "y": y, "monitor": Monitor()}


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if code(page)])
def test_every_block_runs(page, tmp_path, monkeypatch, nobody_trusts, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names = {"__name__": "page", **granted(page, tmp_path)}
    files = []
    for kind, text in blocks(page):
        for words, quicker in QUICKER.get(page, ()):
            text = text.replace(words, quicker)
        if kind == "sh" and page in RUN:
            for line in text.replace("\\\n", " ").splitlines():
                assert main(shlex.split(line, comments=True)[1:]) == 0, (line, capsys.readouterr().err)
        elif kind == "python" and (name := re.match(r"# (\w+)\.py\n", text)):
            monkeypatch.delitem(sys.modules, name[1], raising=False)
            (tmp_path / f"{name[1]}.py").write_text(text)
            files.append(name[1])
        elif kind == "python" and PASTED not in text:
            exec(compile(text, page, "exec"), names)
    for name in files:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_that_one_reads_is_short(page):
    assert page in REFERENCE or len(PAGES[page].split()) < 900


def test_the_site_shows_every_page():
    listed = re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text())
    generated = {"commands.md", "measured.md", "changelog.md"}
    assert {page for page in listed if "/" not in page} - generated == PAGES.keys() - {"notebooks.md", "formulas.md"}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([\w./-]+\.\w+)(?:#[\w-]+)?\)", PAGES[page]):
        assert (ROOT / "docs" / link).exists(), link


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{page}" for page in PAGES)])
def test_files_of_the_code_exist(page):
    for path in re.findall(r"`((?:retrofit_core|app|tests|benchmarks|docs)/[\w./]+)`", (ROOT / page).read_text()):
        assert (ROOT / path).exists(), path


@pytest.mark.slow
def test_the_measurements_are_the_records():
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "tables.py"], capture_output=True, text=True, check=True
    )
    tables = re.split(r" *\n+(?=\*\*)", done.stdout.strip())
    assert len(tables) == 7 and all(table in PAGES["measurements.md"] for table in tables)


def shell_lines() -> Iterator[tuple[str, str]]:
    """(page, line) of every `retrofit` command in a block of shell; a line that ends with a backslash goes on."""
    for page in (*PAGES, "../README.md"):
        for kind, text in BLOCK.findall((ROOT / "docs" / page).read_text()):
            if kind in ("sh", "bash"):
                for line in text.replace("\\\n", " ").splitlines():
                    if line.startswith("retrofit "):
                        yield page, line


@pytest.mark.slow
@each_case(("page", "line"), list(shell_lines()))
def test_every_command_has_the_options_that_a_page_gives_it(page, line):
    """Parsed, not run: `...` stands for what a reader fills in."""
    _, name, *words = shlex.split(line, comments=True)
    command = typer.main.get_command(app).commands[name]
    command.make_context(name, [word for word in words if word != "..."], resilient_parsing=False)
