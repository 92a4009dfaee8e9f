"""Fixtures for the workbench: a runs folder of its own, the shipped runs, a worker that only sleeps, a real browser."""

import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("streamlit", reason="Streamlit is not installed")
from streamlit.components.v2 import manifest_scanner

from retrofit_app import bundle, runs
from retrofit_core.runs import Run, RunConfig, read_run
from retrofit_core.runs.worker import CHILDREN

from .browsing import PATIENCE, end_workers


@pytest.fixture(scope="session", autouse=True)
def components_are_looked_for_once() -> Iterator[None]:
    """At each run, AppTest asks every installed package whether it brings a component. That takes longer than a page does."""
    with pytest.MonkeyPatch.context() as patch:
        once = functools.cache(manifest_scanner.scan_component_manifests)
        patch.setattr(manifest_scanner, "scan_component_manifests", once)
        yield


@pytest.fixture(autouse=True)
def same_main_module() -> Iterator[None]:
    """Streamlit's AppTest leaves its page as the main module, which processes that later tests start would execute."""
    main = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = main


@pytest.fixture
def runs_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "runs"
    monkeypatch.setenv("RETROFIT_RUNS", str(folder))
    return folder


@pytest.fixture(scope="session")
def shipped() -> Run:
    return read_run(runs.BUNDLED / "kf-linear")


@pytest.fixture
def config() -> RunConfig:
    """Work that is not shipped."""
    return bundle.config("HF-Linear", importance="uniform", samples=50, seed=3)


@pytest.fixture
def sleeper(monkeypatch: pytest.MonkeyPatch):
    """Workers that do nothing for a minute; they are ended after the test."""
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    monkeypatch.setattr("retrofit_core.runs.worker.command_of", lambda job: command)
    before = set(CHILDREN)
    yield
    for pid in set(CHILDREN) - before:
        CHILDREN[pid].kill()
        CHILDREN.pop(pid).wait()


# --- a real browser -------------------------------------------------------------------------------


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test in a browser gets a second try: it waits for three programs, and a busy machine may starve one of them."""
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(scope="session")
def served_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs folder of the server."""
    return tmp_path_factory.mktemp("served") / "runs"


@pytest.fixture(scope="session")
def address(screenshots: ModuleType, served_runs: Path) -> Iterator[str]:
    """One server for all browser tests."""
    with screenshots.served(served_runs) as served_address:
        yield served_address
    end_workers(served_runs)


@pytest.fixture
def open_page(browser: Any, address: str) -> Iterator[Callable[..., Any]]:
    """Pages in a fresh profile each; any request to another host fails the test."""
    contexts, elsewhere = [], []

    def watch(request: Any) -> None:
        if not request.url.startswith(("data:", "blob:", "http://127.0.0.1:", "ws://127.0.0.1:")):
            elsewhere.append(request.url)

    def make(path: str = "/", width: int = 1280, scheme: str = "light", base: str = address) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        context.on("request", watch)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.base = base
        page.goto(base + path)
        return page

    yield make
    for context in contexts:
        context.close()
    assert not elsewhere
