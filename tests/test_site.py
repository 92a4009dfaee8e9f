"""The documentation site: its generated pages say what tables and records say, and it is built without a network."""

import contextlib
import importlib.util
import json
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from types import SimpleNamespace

import pytest
import typer.main

from retrofit_core.cli import documentation, main
from retrofit_core.cli.application import app
from retrofit_core.methods import METHODS
from retrofit_core.system.settings import settings_of
from tests.marks import ROOT, each_case, skip_without
from tests.test_cli import HEARING

skip_without("benchmarks", "docs/site", "mkdocs.yml", "notebooks")
RESULTS = ROOT / "benchmarks" / "results"
MODULES = ("commands", "gallery", "grids", "links", "measured", "methods")


#: One of each kind.
KINDS = (
    "index",
    "start",
    "one_page",
    "formulas",
    "methods/index",
    "methods/kf-linear",
    "methods/values",
    "measured",
    "measurements",
    "commands",
    "notebooks",
    "notebooks/00_method",
    "api/index",
    "api/values",
    "licences",
)


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


@each_case("name", METHODS)
def test_a_methods_page_has_its_formula_its_options_and_its_numbers(generated, name):
    page, method = generated[f"methods/{name.lower()}.md"], METHODS[name]
    assert page.count("```math") in (1, 2, 3) and method.sentence in page
    for option, entry in method.settings({"importance": "uniform"}).items():
        assert f"| `{option}` |" in page, option
        assert entry.help.replace("*", "\\*")[:30] in page
    record = json.loads((RESULTS / "methods.json").read_text())
    rows = [
        row for part in ("uniform", "conductance", "repair") for row in record[part]["rows"] if row["method"] == name
    ]
    for row in rows:
        assert f"| {row['accuracy']:.2f} |" in page or f" {row['accuracy']:.2f} |" in page
    studied = [
        result["metrics"]["accuracy"]
        for file in (RESULTS / "experiments").iterdir()
        for result in json.loads(file.read_text())["results"]
        if {**(result["unit"].get("fusion") or {}), "importance": ""} == {"method": name, "importance": ""}
        and "cifar10-vgg11-noniid2-0," in result["title"]
    ]
    assert ("Not measured on this pair" in page) == (not rows and not studied)
    assert rows or all(f"| {accuracy:.2f} |" in page or f" {accuracy:.2f} |" in page for accuracy in studied)


def test_every_part_has_its_options(generated):
    page = generated["methods/values.md"]
    for table in METHODS["KF-Linear"].parts.values():
        for name, value in table.items():
            assert f"`{name}`" in page and f"### {value.__name__}" in page
            assert all(f"| `{option}` |" in page for option, entry in settings_of(value).items() if entry.is_plain)


def test_every_command_stands_with_its_options(generated):
    page = generated["commands.md"]
    for name, command in typer.main.get_command(app).commands.items():
        section = page.split(f"\n## {name}\n")[1].split("\n## ")[0]
        options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
        assert all(f"`{option}" in section for option in options - {"--help"})
        assert "{" not in re.sub(r"`[^`]*`", "", section)  # names of tables are filled in


def test_every_record_is_described(generated):
    files = [path for path in RESULTS.rglob("*.*") if path.is_file()]
    assert any(path.parent != RESULTS for path in files)
    assert all(f"](files/benchmarks/{path.relative_to(RESULTS.parent)})" in generated["measured.md"] for path in files)


def test_every_notebook_has_a_page_with_its_pictures(generated):
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        page = generated[f"notebooks/{path.stem}.md"]
        named = re.findall(r'<img src="([^"]+)"', page)
        assert page.startswith("# ") and all(generated[f"notebooks/{name}"][:4] == b"\x89PNG" for name in named)


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


@pytest.mark.long
def test_formulas_are_drawn_and_names_are_documented(site):
    assert (site / "methods" / "kf-linear.html").read_text().count("<math") >= 2
    assert 'id="retrofit_core.fuse"' in (site / "api" / "index.html").read_text()
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert 'class="arithmatex"' not in text and 'class="math"' not in text, page


@pytest.mark.long
def test_the_command_serves_the_site_until_it_is_interrupted(site):
    command = [sys.executable, "-u", "-c", HEARING, "docs"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            said = next(line for line in process.stdout if "http://" in line)
            address = re.findall(r"http://127\.0\.0\.1:\d+", said)[0]
            for _ in range(300):
                with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/start.html") as answer:
                    assert b"Retrofit" in answer.read()
                    break
                time.sleep(1)
            else:
                pytest.fail("no answer")
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        finally:
            process.kill()


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """No repository, but an installation; what it holds can be added to."""
    monkeypatch.setattr(documentation, "__file__", str(tmp_path / "site-packages" / "retrofit_core" / "cli" / "x.py"))
    monkeypatch.chdir(tmp_path)
    held = []
    monkeypatch.setattr(documentation, "distribution", lambda name: SimpleNamespace(files=held))
    return held


def test_an_installation_has_the_pages_as_text(installed, tmp_path, capsys):
    class Held(PurePosixPath):
        def locate(self):
            return tmp_path / self.name

    for name in ("own_networks", "start"):
        (tmp_path / f"{name}.md").write_text(f"# About {name}\n\n`retrofit {name}`\n")
        installed.append(Held(f"../../../{documentation.INSTALLED}/{name}.md"))
    (tmp_path / "README.md").write_text("# Another")
    installed.append(Held("README.md"))
    assert main(["docs"]) == 0
    listed = capsys.readouterr().out
    assert "own_networks  About own_networks" in listed and "README" not in listed
    assert main(["docs", "Start"]) == 0 and capsys.readouterr().out == "# About start\n\n`retrofit start`\n\n"
    assert main(["docs", "own_network"]) == 2 and "Did you mean 'own_networks'" in capsys.readouterr().err


def test_a_page_of_the_repository_is_printed(capsys):
    assert main(["docs", "own_networks"]) == 0
    assert capsys.readouterr().out.rstrip() == (ROOT / "docs" / "own_networks.md").read_text().rstrip()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        """Say nothing of each file."""


@pytest.fixture
def address(site):
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site)) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.long
@pytest.mark.browser
def test_pages_fit_a_telephone_ask_nobody_else_and_are_found(address):
    """What scripts load, too; tables and formulas scroll by themselves, never the page."""
    spec = importlib.util.spec_from_file_location("screenshots", ROOT / "docs" / "screenshots.py")
    assert spec and spec.loader
    screenshots = importlib.util.module_from_spec(spec)
    pytest.importorskip("playwright")
    spec.loader.exec_module(screenshots)
    if screenshots.chromium() is None:
        pytest.skip("no Chromium found (Debian's package, or CHROMIUM=path)")
    asked: list[str] = []
    faults: list[str] = []
    with screenshots.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=screenshots.chromium(), args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": 390, "height": 900})
        page.on("request", lambda request: asked.append(request.url))
        page.on("response", lambda answer: faults.append(answer.url) if answer.status >= 400 else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        for name in KINDS:
            page.goto(f"{address}/{name}.html", wait_until="load")
            wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide == 0, (name, wide)
        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto(f"{address}/index.html")
        page.locator("[data-md-component=search-query]").click()
        page.keyboard.type("normalise_scores")
        page.locator(".md-search-result__item").first.wait_for(timeout=120_000)
        chromium.close()
    assert not faults and all(url.startswith((address, "data:", "blob:")) for url in asked), (faults, asked)
