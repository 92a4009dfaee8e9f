"""Fixtures for all tests."""

import gc
import importlib.util
import os
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import typer
from hypothesis import HealthCheck, settings
from packaging.requirements import Requirement
from threadpoolctl import threadpool_limits

from retrofit_core.system import extras
from tests.marks import ROOT
from tests.own_networks import MYNET

CHECKPOINTS = 8  # that `shared` holds; a part of them may be brought along for other work
#: Packages of the extras that the core imports where it needs them.
OPTIONAL = ("captum", "distributed", "ot", "PIL", "pyarrow", "torchvision")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real data sets and checkpoints; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("RETROFIT_SHARED", Path(__file__).parents[2] / "shared"))
    if len([*folder.glob("models/*.safetensors")]) < CHECKPOINTS:
        pytest.skip(f"no shared data and checkpoints at {folder} (set RETROFIT_SHARED)")
    return folder


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The user's cache is left alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def what_the_machine_lacks() -> Iterator[None]:
    """It is a reason to skip: a package of the extras, for work that requires it, and a Typer older than the package's bound,
    for all that runs a command."""
    with pytest.MonkeyPatch.context() as patch:
        if missing := [name for name in OPTIONAL if importlib.util.find_spec(name) is None]:
            patch.setattr(extras, "import_module", lambda name: _imported(name, missing))
        dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
        bound = next(each for each in map(Requirement, dependencies) if each.name == "typer")
        if version("typer") not in bound.specifier:
            reason = f"typer {version('typer')} is installed, and the command line needs {bound}"
            patch.setattr(typer.Typer, "__call__", lambda *_, **__: pytest.skip(reason))
        yield


def _imported(name: str, missing: list[str]) -> ModuleType:
    if name in missing:
        pytest.skip(f"{extras.DISTRIBUTION.get(name, name)} is not installed")
    return importlib.import_module(name)


@pytest.fixture
def seed() -> int:
    return 0


@pytest.fixture
def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(params=["cpu", *([pytest.param("cuda", marks=pytest.mark.cuda)] if torch.cuda.is_available() else [])])
def device(request: pytest.FixtureRequest) -> torch.device:
    """Every device that is here, which the core must give the same results on; tests/test_device.py says where CUDA is not."""
    return torch.device(request.param)


# --- a real browser, for pages of the workbench and lectures ---------------------------------------------------------------


@pytest.fixture(scope="session")
def screenshots() -> ModuleType:
    """docs/screenshots.py, which knows how to serve the workbench and where Chromium is."""
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed (requirements-dev.txt)")
    path = ROOT / "docs" / "screenshots.py"
    specification = importlib.util.spec_from_file_location("screenshots", path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    if module.chromium() is None:
        pytest.skip("no Chromium found (Debian's package, or CHROMIUM=path)")
    return module


@pytest.fixture(scope="module")
def browser(screenshots: ModuleType) -> Iterator[Any]:
    """A Chromium. Not for the whole session: its event loop would be in the way of other tests."""
    with screenshots.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=screenshots.chromium(), args=["--no-sandbox"])
        yield chromium
        chromium.close()


# --- code of a user's own ---------------------------------------------------------------------------------------------------


@pytest.fixture
def nobody_trusts(monkeypatch) -> Iterator[None]:
    """No user code was named or imported, before and after."""
    from retrofit_core.networks import user_code

    monkeypatch.setattr(user_code, "_files", {})
    monkeypatch.delenv(user_code.VARIABLE, raising=False)
    monkeypatch.delitem(sys.modules, "mynet", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop("mynet", None)


@pytest.fixture
def mynet(tmp_path, monkeypatch, nobody_trusts) -> Path:
    """mynet.py in the current folder, which is empty otherwise."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mynet.py"
    file.write_text(MYNET)
    return file


# The networks of the tests are tiny: threads would only wait for each other. Processes that tests start have one thread as
# well, for sums of another number of threads round otherwise.
os.environ["OMP_NUM_THREADS"] = "1"
torch.set_num_threads(1)
threadpool_limits(1)

# The same examples every time, and no limits of time: these machines are shared.
settings.register_profile(
    "tests",
    deadline=None,
    derandomize=True,
    max_examples=25,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part", metavar="K/N", help="of the files that hold tests, those of part K of N only (with -m long)"
    )


@pytest.hookimpl(trylast=True)  # behind the choice by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whole files, dealt out in turn: a file's fixtures are made once."""
    if part := config.getoption("--part"):
        number, parts = map(int, part.split("/"))
        files = sorted({str(item.path) for item in items})[number - 1 :: parts]
        config.hook.pytest_deselected(items=[item for item in items if str(item.path) not in files])
        items[:] = [item for item in items if str(item.path) in files]


def pytest_collection_finish() -> None:
    """Modules and thousands of tests stay until the end: the garbage collector need not look at them again and again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadfile`, where all browser tests go to one process: one server, one Chromium at a time."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # only where the tests run in several processes

    class BrowserTogether(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "browser" if "/test_browser_" in nodeid else super()._split_scope(nodeid)

    return BrowserTogether(config, log)


@pytest.fixture(autouse=True)
def import_path():
    """The folders of a user's code, which importing it puts on the path, are of no other test."""
    before = sys.path[:]
    yield
    sys.path[:] = before
