"""A wheel built from the repository has every package and every file that the workbench needs; an sdist is the repository."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.long
ROOT = Path(__file__).parent.parent
PACKAGES = {"retrofit_core": Path("."), "app": Path("app")}
"""Top-level folder -> the folder whose content a wheel holds"""
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[2])(sys.argv[1]))"
#: What lies about in a folder in which somebody works.
STRAYS = (
    "runs/first/config.json",
    "retrofit_core/__pycache__/fusion.cpython-311.pyc",
    "tests/.pytest_cache/x",
    "dist/x.whl",
)
SHIPPED = """
import sys
sys.path.insert(0, sys.argv[1])
from retrofit_app import runs
from retrofit_core.cli import main
assert all(module.__file__.startswith(sys.argv[1]) for module in (runs, sys.modules["retrofit_core.cli"]))
entries, problems = runs.entries()
print(len(entries), problems)
"""


def sources() -> list[Path]:
    """What a commit of this tree would hold, relative to it."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if listing.returncode:
        pytest.skip("this tree is no git repository, so nobody knows which files belong to it")
    return [Path(name) for name in listing.stdout.splitlines() if (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository, with strays."""
    folder = tmp_path_factory.mktemp("tree")
    for name in sources():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)
    for name in STRAYS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("stray")
    return folder


def built(tree: Path, out: Path, kind: str) -> Path:
    """Offline, by the build backend itself."""
    done = subprocess.run([sys.executable, "-c", BUILD, str(out), kind], cwd=tree, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return out / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tree, tmp_path_factory.mktemp("wheel"), "build_wheel")


def test_the_sdist_is_the_repository(tree, tmp_path):
    with tarfile.open(built(tree, tmp_path, "build_sdist")) as archive:
        held = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    made = {"PKG-INFO", "setup.cfg", *(name for name in held if name.startswith("retrofit_workbench.egg-info/"))}
    assert "retrofit_workbench.egg-info/PKG-INFO" in held  # else a copy of it does not know its version
    assert sorted(held - made) == sorted(name.as_posix() for name in sources())


def test_every_file_of_the_packages_is_in_the_wheel(wheel):
    """Every module, so that no package can be forgotten in pyproject.toml, and every other file that is tracked."""
    held = set(zipfile.ZipFile(wheel).namelist())
    wanted = {name.relative_to(PACKAGES[name.parts[0]]).as_posix() for name in sources() if name.parts[0] in PACKAGES}
    assert {"retrofit_app/bundled/bundle.json", "retrofit_app/static/favicon.png"} < wanted
    assert "retrofit_app/.streamlit/config.toml" in wanted
    assert sorted(wanted - held) == []
    assert sorted(name for name in held - wanted if ".dist-info/" not in name) == []


def test_the_installed_app_has_its_shipped_runs(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    command = [sys.executable, "-W", "ignore", "-c", SHIPPED, str(tmp_path / "site")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["4 {}"], done.stderr
